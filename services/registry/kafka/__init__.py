"""Steps on Kafka clusters: one attempt per call, no rules."""
