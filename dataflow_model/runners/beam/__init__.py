"""Pipelines of Apache Beam's Python SDK on this engine, unmodified; needs the extra `beam`.

A pipeline arrives as its description by Beam. `requirements` rejects what cannot be run, and `overrides` puts
transforms of ours in the place of some of Beam's. `phases` expands and fuses it with Beam's rules, and `lowering` makes
an ordinary plan of it, with `strategies` for its windows and triggers. Beam's own operations run the fused functions,
in the room `functions`; `own` is what Beam's pipelines get from this package. Groupings, windows, triggers, panes,
state, timers and watermarks are the engine's. Begin with `runner`, then `lowering`.

Only this room and `dataflow_model.beam` import Beam, only `functions.harness` its workers, and only `phases` its
translations.
"""
