"""The durable state of a grouping: a few bytes for each key.

Begin with `durable`; then `packed_form`, `packing` and `unpacking`, `joined` for many keys at once, and `waiting`, when
each is next due.
"""
