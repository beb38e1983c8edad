"""Values of the lag monitor: clusters, logs, lag. Pure."""
