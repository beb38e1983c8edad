"""Whom Braid is measured beside."""
