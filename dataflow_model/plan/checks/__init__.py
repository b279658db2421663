"""Checks of a plan before any data are read, each in a module of its own; `all_checks` runs them.

`support` compares a plan with what a runner supports.
"""
