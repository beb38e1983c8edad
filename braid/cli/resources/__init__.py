"""Verbs that show things, and create or delete them."""
