"""Upgrades: the state of a stopped run, carried into a new checkpoint.

Begin with `carrying`, then `fates`: what becomes of the state in a changed pipeline; `adopting` and `seed`: how the new
run starts from it; `renewal`: groupings with another trigger, mode or lateness.
"""
