"""The dlq service: an index of dead letters, and replays of them."""
