"""What the tasks of a micro-batch run: begin with `work` and `stage0`, then `keyed_stage` and `instants`."""
