"""Verbs that move traffic, and end drains."""
