"""Ownership of Kafka clusters: marks, adoption, comparison after a restore, and deletion of topics."""
