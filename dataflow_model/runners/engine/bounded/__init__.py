"""A whole plan of bounded sources in one process, instant by instant."""
