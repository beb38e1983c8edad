"""Values of the dead-letter service. Pure, without rules."""
