"""A service's histories of events: loading, deciding, appending, folding into state, and reading the past."""
