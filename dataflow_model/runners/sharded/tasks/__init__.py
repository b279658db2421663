"""The program of a run, and its tasks: begin with `program`, `task` and `rows`, then `shard_state`."""
