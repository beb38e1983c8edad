"""`braid doctor`: findings about brokers, clusters, groups and releases."""
