"""Time that leaders led, the waits that are counted in it, and the comparison of the clocks of replicas."""
