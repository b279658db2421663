"""The state of a shard: its log, a worker's cache of it, and the outputs of memoised functions."""
