"""Rules of a group: decide, evolve, explain. Pure."""
