"""A whole plan of bounded sources in one process, chunk by chunk.

Begin with `execution`, then `inputs`.
"""
