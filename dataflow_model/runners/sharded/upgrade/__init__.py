"""What a stopped run has kept, carried into a new checkpoint."""
