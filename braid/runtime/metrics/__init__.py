"""The metrics of a replica: instruments by declaration, what Prometheus reads, and what is exported by OTLP."""
