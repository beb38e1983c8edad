"""Access control of a replica: it follows grants, asks before every handler, and ends streams without a right."""
