"""Kafka clusters of several brokers as processes."""
