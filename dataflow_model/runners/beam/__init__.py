"""Pipelines of Apache Beam's Python SDK on this engine, unmodified; needs the extra `beam`.

A pipeline arrives as its description by Beam. `phases` expands and fuses it with Beam's rules, and `lowering` makes
an ordinary plan of it, with `strategies` for its windows and triggers. Beam's own operations run the fused functions:
`harness` makes them, for `stages` and, where there is state, `stateful` and `splittable`. Groupings, windows, triggers,
panes, state, timers and watermarks are the engine's. `counted` has what the functions count, `hooks` how they end
bundles. Begin with `runner`, then `lowering`.

Only this room imports Beam, only `harness` its workers, and only `phases` its translations.
"""
