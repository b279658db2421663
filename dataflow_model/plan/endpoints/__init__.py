"""Sources and sinks as values: all that a runner needs to know of them.

Begin with `sources`, then `column_sources`, which workers read by ranges of rows, and their `origins`; the program
holds `program_sources`, and `scripts` are the sources of tests. Then `sinks`, and `message_sinks` for small results.
`features` names what a runner must support for them, `outcomes` what each kind of reader makes of panes that refine
each other.
"""
