"""Which replica reads which cluster, and the lag that replicas read for each other, as columns. Pure."""
