"""What was done is told to Kafka, and read back when a lease begins."""
