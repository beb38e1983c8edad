"""Metrics and spans of the client."""
