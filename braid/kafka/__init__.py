"""Adapters of the Kafka port: over aiokafka for real clusters, and a twin in memory. The only importers of aiokafka.

Import `braid.kafka.cluster` for real clusters, `braid.kafka.memory` for the twin; this package itself loads neither.
"""
