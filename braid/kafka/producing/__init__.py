"""Idempotent producers on top of aiokafka."""
