"""Loops that a leader runs for each group."""
