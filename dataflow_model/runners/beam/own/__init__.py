"""What Beam's pipelines get from this package: its own transforms as parts of them, and options by label.

Begin with `parts`, of which the lowering knows only what they add to a plan; `dataflow_model.beam` defines their kinds.
"""
