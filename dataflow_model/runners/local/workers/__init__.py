"""A bounded run over several processes: `LocalRunner(workers=n)`.

Each worker owns a shard of the keys and reads a part of the sources. All workers run stage by stage: a stage runs over
all instants of the input before the next one starts, because the watermark of its input is the minimum over the shards
of the stage before. Between stages the workers exchange elements and watermarks as Arrow files in a temporary folder.
The parent process lists the sources, waits for the workers, and commits the output of the sinks.

Begin with `job`, `team` and `worker`.
"""
