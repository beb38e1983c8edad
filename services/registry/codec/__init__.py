"""Events, specs and snapshots as messages and bytes."""
