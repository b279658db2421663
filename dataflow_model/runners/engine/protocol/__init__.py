"""What the machine of a keyed node does: `machine`, and `keyed` for those with state by key.

`sharding` decides which shard owns an element, `by_key` sorts a bucket of a bounded job, `dropping` counts
what is late.
"""
