"""Time that leaders led, the waits counted in it, and the comparison of replicas' clocks."""
