"""A leader's knowledge of connections, which ends with its term. Pure."""
