"""The lag of all lanes at once: columns of what rules look at, clocks of what they say, and numbers of lanes. Pure."""
