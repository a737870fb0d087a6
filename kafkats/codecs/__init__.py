"""One module per codec: the framing that Kafka writes and accepts. See kafkats.compression."""
