"""The runtime of streams and jobs that are cut into shards. It knows no host: neither Spark nor a file.

Read it in this order:

* `tasks`: the program, pickled once, and what a worker keeps of it.
* `feed`: what each micro-batch reads.
* `stages`: what its tasks run: stage 0, then keyed stages; `state`: the log of a shard.
* `outputs`: what they pass to sinks, pending; `commits`: publishing, and the progress of the run.
* `checkpoint`: files that say when they are damaged; `directory` is the whole checkpoint.
* `upgrade`: state that is carried into a new checkpoint. `starting` and `results`: a run as hosts see it.
"""
