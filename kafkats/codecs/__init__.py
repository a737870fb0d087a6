"""One module per codec: the framing that Kafka writes, and what its readers accept. The table is kafkats.compression."""
