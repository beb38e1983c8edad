"""Handlers run: verdicts, retries, dead letters, circuit breakers."""
