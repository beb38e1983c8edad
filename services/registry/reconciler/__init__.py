"""Loops that a leading registry runs."""
