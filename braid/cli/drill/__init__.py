"""`braid drill`: failures that are rehearsed."""
