"""The runtime of a stream or a job that is cut into shards, whatever hosts it: it knows nothing of Spark."""
