"""What a term knows of connections; gone with the term. Pure."""
