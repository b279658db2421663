"""MillWheel's API: computations that are wired by named streams.

Begin with `computations` and `stream_records`, what users write and exchange; then `topology` and `injectors`, how they
are wired. `computing` makes an ordinary stateful `DoFn` of a computation, `checks` finds mistakes, `boxes` draws.
"""
