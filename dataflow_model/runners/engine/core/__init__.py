"""The compiled core: cells in columns, and trigger trees as small programs over them.

Some modules of this room are compiled ahead of time by Cython from these very files: those with a `.pxd` of C types
beside them. Nothing here imports Cython, so without the extensions the same files run as plain Python, and
give the same answers.

* `program`: a trigger tree as arrays.
* `cells`, `deadlines`, `log` (compiled): the state of a grouping's windows, its timers, and what it did.
* `evaluation` (compiled): one event through the tree of one cell.
* `machine` (compiled): elements, clocks, watermarks and signals, in order.
* `keys`, `integers` (the latter compiled): which number stands for which key.
* `folding`, `sums` (the latter compiled): values from the log.
* `calls` (compiled): the elements of a stateful `DoFn`, one after the other.
* `grouping`: all of these but `calls` together, for one grouping on one shard.
"""

from dataflow_model.runners.engine.core.build import choose_modules

choose_modules()
