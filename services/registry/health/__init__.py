"""Judges the health of clusters by what is observed of them. Pure."""
