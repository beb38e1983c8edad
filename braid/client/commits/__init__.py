"""Commits progress to Kafka, and reads it back when a lease begins."""
