"""The rules of a group: decide, evolve, explain. Pure."""
