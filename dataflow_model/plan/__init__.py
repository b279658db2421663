"""The logical plan, between `transforms` and `io`, which build it, and the runners, which run it.

Read it from the bottom:

* `names`: well-known names of other systems, and what they are called here.
* `functions`: what users subclass, `DoFn` and `CombineFn`, and what these declare.
* `columns`: rows, and the columns of Arrow that they are read from and written as.
* `watermarks`: how the watermark of a source follows from its data.
* `endpoints`: sources and sinks as values.
* `logical`: nodes, their graph, the windowing strategy, and the chain of stages into which a plan is cut.
* `checks`: what is checked before any data are read.
* `rewrites`: plans that give the same answer in another way, and a plan in words.
"""
