"""Programs that hold kafkats against real Kafka: scripts/conformance."""
