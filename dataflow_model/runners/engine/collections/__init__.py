"""Whole collections: those that are computed ahead of a run, and side inputs.

Begin with `kept` and `ahead`, then `sides`; `sink_records` are elements as sinks take them.
"""
