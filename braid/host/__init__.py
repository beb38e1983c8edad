"""The real host: clock, randomness, ids and tasks of an operating-system process."""
