"""Requests and responses that aiokafka lacks."""
