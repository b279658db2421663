"""Beam's fused functions, as functions of the engine.

`harness` makes the operations of Beam's that run a stage. `stages` hands them bundles of elements and, where there is
state or work that may never end, `stateful` and `splittable` single ones. `states` answers for state and timers,
`side_windows` and `assigning` for windows, `kernels` for combiners. `counted` has what the functions count, `hooks` how
they end bundles, and `registered` and `packages` what of the program they need in other processes. Begin with `stages`.
"""
