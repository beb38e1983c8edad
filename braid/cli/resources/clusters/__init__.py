"""Commands show the health, loads and losses of clusters."""
