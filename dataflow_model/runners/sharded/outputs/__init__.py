"""The output of tasks before it is published: begin with `pending` and `commit_ids`, then `publication`."""
