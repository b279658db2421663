"""The part of a checkpoint directory that belongs to this package, independent of the host of the run."""
