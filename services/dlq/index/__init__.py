"""The index of dead letters: a derived file in SQLite, and how it is filled."""
