"""Bounds of what the registry keeps, judges, moves and evens out."""
