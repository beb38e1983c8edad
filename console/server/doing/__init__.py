"""Actions that people take in the console: each is an RPC and the command that would do the same."""
