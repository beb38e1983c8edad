"""Loops that a leader runs: membership in the service's own group, and replay jobs."""
