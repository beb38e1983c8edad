"""Benchmarks: one script a question, each beside its peers in the same run, by `docs`' rules for honest numbers."""
