"""The runtime of sharded streams and jobs, independent of their host: it knows nothing about Spark."""
