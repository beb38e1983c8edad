"""Loops that follow the offset logs and the ends of logs."""
