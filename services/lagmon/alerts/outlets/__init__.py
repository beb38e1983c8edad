"""Outlets of alerts: webhooks and Alertmanagers that the leader sends alerts to."""
