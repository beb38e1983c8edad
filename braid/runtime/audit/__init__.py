"""Audit of one replica: its calls are recorded off their path, written to the store and to a file, and listed."""
