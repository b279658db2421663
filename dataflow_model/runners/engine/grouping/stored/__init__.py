"""The durable state of a grouping: a few bytes for each key.

Begin with `durable`; then `packed_form`, `packing` and `unpacking`, and `joined` for many keys at once.
"""
