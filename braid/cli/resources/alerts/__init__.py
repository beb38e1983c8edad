"""Alerts as commands show them, and `braid silence`."""
