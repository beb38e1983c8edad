"""Filters that people type: one grammar, and for each place its own fields."""
