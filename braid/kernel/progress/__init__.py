"""Progress of a group in one partition: its tracker, what a commit states, sets of offsets, backlog cursors. Pure."""
