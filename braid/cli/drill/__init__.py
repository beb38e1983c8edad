"""`braid drill`: rehearses failures on a running mesh."""
