"""Whose a Kafka cluster is: marks on it, taking it over, comparing it after a restore, and deleting there."""
