"""Transforms that group by key, and the combiners.

Begin with `by_key`, then `group_by` and `hot_keys`. Combiners: `combiners`, `collectors`, `approximate`, `latest`,
`sampling`, `together`, and `combiner_forms` for what they share; `associative` makes one of what users pass, `refusals`
sends away what one does not take. `batches` and `deduplicate` are stateful functions by key.
"""
