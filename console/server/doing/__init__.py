"""What people do in the console: actions, each an RPC and the command that would do the same."""
