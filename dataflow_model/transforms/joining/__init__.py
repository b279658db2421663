"""Transforms of several collections by a common key: begin with `cogroup`, then `joins` and `interval_joins`."""
