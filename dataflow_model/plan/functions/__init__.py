"""What users subclass, and what the engine finds in it.

Begin with `dofn` and `combine`. `parameters` are those that functions have filled by name; `declaration` is what the
class of a stateful function declares: `state` and timers, which `state_handles` give it and `state_journal` undoes if
it fails. `kernels` are the combiners that exist on columns.
"""
