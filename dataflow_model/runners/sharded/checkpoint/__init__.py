"""The part of a checkpoint directory that is ours, whatever hosts the run."""
