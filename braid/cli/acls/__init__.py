"""The verb about Kafka's ACLs."""
