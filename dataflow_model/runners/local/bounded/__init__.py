"""A run without a checkpoint, which commits once: begin with `result`, then `writing`."""
