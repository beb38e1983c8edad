"""Values: clusters, logs, lag. Pure."""
