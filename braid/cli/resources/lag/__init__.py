"""`braid get lag`: the lag of groups, now and over time."""
