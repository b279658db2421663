"""Checks of users' own parts: begin with `window_fns`, then `combine_fns` and `trigger_checks`."""
