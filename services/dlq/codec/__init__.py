"""Events, dead letters and snapshots as messages and bytes."""
