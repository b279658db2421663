"""Topics of Kafka, by the client `confluent-kafka`, without Java.

Begin with `client`. Reading: `read`, `source`, `offsets` and `reading`. Writing: `write`, `sink`, `messages`, and
`transactions`, which publish each commit once by means of `marks`.
"""
