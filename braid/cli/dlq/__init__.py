"""`braid dlq`: replays of dead letters."""
