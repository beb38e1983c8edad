"""Mutual TLS of a process: its files, its connections, and the certificates of its peers."""
