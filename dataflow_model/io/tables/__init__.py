"""A table of a database as a sink: begin with `table_sinks` and `table_store`, then the types of columns and values."""
