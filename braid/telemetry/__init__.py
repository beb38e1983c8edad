"""Traces and logs by OpenTelemetry: `tracing` knows its API alone, `exporting` sets up its SDK from the environment."""
