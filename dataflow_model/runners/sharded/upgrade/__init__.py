"""Upgrades: the state of a stopped run, carried into a new checkpoint.

Begin with `carrying` and `adopting`, then `seed`.
"""
