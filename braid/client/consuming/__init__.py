"""A consumer: its clusters, its leases, and the loop that fetches."""
