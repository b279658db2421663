"""Topics of Kafka, by `confluent-kafka`, without Java.

Begin with `client`; `write`, `sink` and `transactions` write each commit once, `messages` are its elements.
"""
