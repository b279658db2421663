"""Both ends of a pipeline, on which those of `io` are built: `create`, and tables of other libraries as rows."""
