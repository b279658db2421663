"""What a shard keeps: its log, what a worker remembers of it, what functions gave."""
