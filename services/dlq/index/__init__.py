"""The index of dead letters, a SQLite file derived from the logs, and the tasks that fill it."""
