"""The part of a checkpoint directory that belongs to this package, independent of the host of the run.

Begin with `durable` and `parts`, how all of it is written, then `record` and `requests`.
"""
