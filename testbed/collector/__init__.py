"""A real OpenTelemetry Collector for tests: how to obtain it, and a process that runs the configuration of deploy/."""
