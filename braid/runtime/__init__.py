"""Runs a service's pure rules as a replica: aggregates, leadership, serving, telemetry, settings."""
