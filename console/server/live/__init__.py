"""Live pages: their parts, the events that tell changes, and their watchers."""
