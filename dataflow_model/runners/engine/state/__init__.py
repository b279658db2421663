"""State by key that may exceed memory.

Begin with `key_store` and `queues`, keys and their deadlines; then `settled`, on disk, and `resharding`. `id_store`,
`id_segments` and `bloom` are sets of ids; `stateful_cells` is the state of stateful functions.
"""
