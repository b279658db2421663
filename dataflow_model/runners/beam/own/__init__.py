"""Parts of this package in pipelines of Beam's, of which the lowering knows only what they add to a plan.

Begin with `parts`; `dataflow_model.beam` defines the kinds of parts.
"""
