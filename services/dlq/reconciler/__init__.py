"""Loops that a leader runs: members of the dlq lane, and replay jobs."""
