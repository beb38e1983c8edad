"""Failures rehearsed on an operator's own mesh: what `braid drill` runs. Applications never import it."""
