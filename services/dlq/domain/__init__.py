"""Pure rules of replay jobs and their letters."""
