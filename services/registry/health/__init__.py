"""Judges the health of clusters from observations. Pure."""
