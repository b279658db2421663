"""A grouping as the machine of a stage, on the compiled core: *what* is in its panes.

Begin with `core_grouping` and `keyed`. `keys` numbers keys, `kernel_fold` and `kernel_columns` fold values in arrays,
`placing` and `pane_lanes` are what goes in and comes out. `users` and `merging` ask users' triggers and window
functions. `stored` is the durable state. `uncompiled` warns if the core is not compiled.
"""
