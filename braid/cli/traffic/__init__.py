"""Verbs that write and read records."""
