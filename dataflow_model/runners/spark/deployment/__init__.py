"""What a session and its executors need: begin with `session` and `package`.

`executors` looks at what they have, `shipping` sends them programs, `daemon` and `worker_python` start their workers,
and `failures` are errors on their way back.
"""
