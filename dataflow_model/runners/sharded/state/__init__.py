"""The state of a shard: begin with `log`, then `key_classes`."""
