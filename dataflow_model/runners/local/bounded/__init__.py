"""A run without a checkpoint, which commits once: begin with `bounded_run`, then `writing` and `result`."""
