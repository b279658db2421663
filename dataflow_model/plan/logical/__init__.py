"""The plan itself.

Begin with `nodes`, `graph` and `strategy`; then `stages`, into which a plan is cut, and `ahead`, what runs before them.
`runner` is the interface of what runs a plan, with `collecting` for its results. `refinements`, `retracted` and
`triggering` say what follows from windowing strategies, `fingerprint` and `state_parts` what durable state depends on;
`dropped` is the element that a transform was too late for.
"""
