"""The values of messages in columns. Begin with `values`; `avro` reads Avro, whose schemas `registry` fetches."""
