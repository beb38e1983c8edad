"""The local mesh behind `braid dev`: Kafka, store and services as processes, and the tools they need."""
