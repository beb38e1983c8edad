"""The port to Kafka: producing, fetching, administration and committed offsets of any cluster."""
