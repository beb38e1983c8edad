"""Pathways of records over streams, as processes report them: merged, kept for an hour, and listed."""
