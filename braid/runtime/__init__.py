"""What turns a service's pure rules into a running replica: aggregates, leadership, serving, telemetry, settings."""
