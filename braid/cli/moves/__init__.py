"""Verbs that move traffic, and verbs that end drains."""
