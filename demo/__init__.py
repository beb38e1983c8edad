"""The story of `make demo`: a stream of this machine's telemetry outlives a Kafka cluster, and a ledger proves it."""
