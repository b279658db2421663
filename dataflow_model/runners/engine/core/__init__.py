"""The compiled core: cells in columns, and trigger trees as small programs over them.

Some modules of this room are compiled ahead of time by Cython from these very files: those with a `.pxd` of C types
beside them. Nothing here imports Cython, so without the extensions the same files run as plain Python, and
give the same answers.

*When* panes are emitted:

* `program`, `rules`: a trigger tree as arrays, and the rest of the windowing strategy.
* `cells`, `deadlines`, `schedule` (compiled): the state of a grouping's windows, and when each is due next.
* `evaluation`, `tree_merging` (compiled), `users`: an event through the tree of one cell; trees that merge; the user's
  triggers.
* `emission`, `log` (compiled): the panes that a firing emits and retracts, and the operations from which values follow.
* `machine` (compiled), `merging`: elements, clocks, watermarks and signals, in order; windows that merge as users say.

*What* is in them:

* `keys`, `integers` (the latter compiled): the number of each key.
* `kernel_fold`, `kernel_columns`; `reductions`, `folding` (compiled): values from the log, in arrays or one by one.
* `placing`, `pane_lanes`: what goes in and comes out, in columns.
* `grouping`, `keyed`: all of these together for one grouping on one shard, as a machine of a stage.

*Durable state*:

* `durable`: such a machine with durable state.
* `packed_form`, `packing`, `unpacking`, `moving` (compiled), `states`: the bytes of a key.
* `byte_table` (compiled), `joined`, `waiting`: the bytes of millions of keys, and when each is due.

* `columns`, `operations`, `panes`: arrays and numeric codes that compiled and plain modules share, and emitted panes in
  columns.
* `search_trees` (compiled): what a key has open, by time: windows of a grouping, and elements of a join by distance.
* `calls` (compiled): the elements of a stateful `DoFn`, one after the other.
* `build`: whether all this is compiled.
"""

from dataflow_model.runners.engine.core.build import choose_modules

choose_modules()
