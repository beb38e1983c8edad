"""Rules of replay jobs. Pure."""
