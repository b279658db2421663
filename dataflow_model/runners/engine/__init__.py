"""The engine: grouping, merging, triggering, accumulation, state and timers. It knows no host.

A chunk of instants passes through it stage by stage. Read it in this order:

* `lanes`: elements side by side, in columns, with their total order.
* `functions`: calls of users' functions.
* `elementwise`: transforms that are fused between a producer and the groupings and sinks that it feeds.
* `protocol`: what a machine of a keyed stage does.
* `core`: the compiled part, cells in columns and triggers as programs; `grouping`: the machine on it.
* `lifted`: groupings that combine before the shuffle.
* `state`: keyed state; `machines`: the other machines, and `shard`, which runs a stage.
* `sources`: what is read, and the watermarks and timeline that follow from it.
* `collections`: whole collections, as side inputs and sinks take them.
* `bounded`: a whole plan of bounded sources in one process.
"""
