"""Shared by all verbs: sessions, output, text, questions, times."""
