"""Steps on Kafka clusters: one attempt a call, no rules."""
