"""Sources and sinks as values: all that a runner needs to know of them.

Begin with `sources`, then `scripts`, the sources of tests; `sinks`, then `message_sinks` for small results.
`features` names what a runner must support for them, `outcomes` what each kind of reader makes of panes that refine
each other.
"""
