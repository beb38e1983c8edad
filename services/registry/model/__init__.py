"""Values of the registry: the contents of events and commands. No rules across several values, no I/O."""
