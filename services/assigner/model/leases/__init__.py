"""The leases of a group: one, all by name, and all in columns. Pure."""
