"""Vectorised kernels over Arrow columns, one idea a module; `dataflow_model.runners.engine.kernels` is their face."""
