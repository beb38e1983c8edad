"""Adapters of the event-store port: `memory`, `sqlite`, `etcd`. Only they know their drivers; nobody else may."""
