"""Audit records, pure: what is recorded of a call, how repeats are counted, and what is kept when there is no room."""
