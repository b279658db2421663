"""Transforms of single elements.

Begin with `pardo`, then `maps`, `map_async` and `pairs`, which are made of it. `side_inputs`, `state` and `vectorized`
are what its functions may ask for; `dead_letters` and `dropped` are its further outputs. `reshaping`, `timestamps` and
`watching` change no element. `functions` has types for type checkers.
"""
