"""Values of a group: what events and commands carry. No rules, no I/O."""
