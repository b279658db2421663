"""The machines of keyed nodes other than groupings on the core, and the shard that runs those of a stage.

Begin with `shard`; then `stateful`, `resuming`, `side_join`, `memoising`, `deduplicating`, `relay`, `interval_join`
with its `open_elements`, and `columnar` for lifted groupings.
"""
