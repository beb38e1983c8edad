"""Values of the registry: what events and commands carry. No rules of several things at once, no I/O."""
