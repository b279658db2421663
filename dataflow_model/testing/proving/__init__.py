"""`prove`: the laws of the model on a pipeline of the user's.

Begin with `proof` and `laws`; `arrivals` are its cases, `proof_runs` and `micro_batches` run them.
"""
