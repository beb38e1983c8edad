"""The load of the demo: what this machine tells of itself, how it is sent, and who handles it."""
