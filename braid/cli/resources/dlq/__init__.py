"""Dead letters, their replays and rejected records as items to show."""
