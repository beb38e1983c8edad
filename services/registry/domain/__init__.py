"""Rules of streams and clusters: decide and evolve. Pure."""
