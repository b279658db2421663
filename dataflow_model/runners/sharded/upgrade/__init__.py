"""Upgrades: the state of a stopped run, carried into a new checkpoint."""
