"""The archive of histories: what compaction removes from the event store stays readable here. Format and storage."""
