"""Values of the dead-letter service, without rules. Pure."""
