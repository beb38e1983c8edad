"""The registry: owns clusters, streams, lanes, channels and routes."""
