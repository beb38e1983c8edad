"""The lag monitor: how much of each stream each group has left to do. `README.md` says how it works."""
