"""Vectorised kernels over Arrow columns; `dataflow_model.runners.engine.kernels` is their interface."""
