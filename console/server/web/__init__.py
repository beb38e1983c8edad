"""HTTP: what browsers ask, and what they are answered."""
