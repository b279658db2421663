"""Vectorised kernels, which do on whole columns what the compiled core does element by element.

They cover only the common cases, described by `supports` (types) and `fits` (values); the core takes all others, with
the same results. The kernels are pure functions.
"""
