"""The engine: grouping, merging, triggering, accumulation, state and timers; it knows nothing about Spark."""
