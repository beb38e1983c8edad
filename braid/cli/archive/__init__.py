"""`braid archive`: archives of histories are read again."""
