"""Rehearsed failures on an operator's own mesh, which `braid drill` runs. Applications never import it."""
