"""Pages that change: their parts, the events that say what changed, and those who watch."""
