"""A whole plan of bounded sources in one process, chunk by chunk."""
