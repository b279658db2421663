"""Fused element-wise transforms: begin with `fragments`, then `flows` and `flow_functions`."""
