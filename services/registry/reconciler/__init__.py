"""Loops that a leader runs."""
