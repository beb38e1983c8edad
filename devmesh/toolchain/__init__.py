"""Java, Kafka and etcd on this machine: found, fetched, checked, kept."""
