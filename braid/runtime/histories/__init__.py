"""A service's histories of events: read, decided upon, appended to, folded into state, and read as of a moment."""
