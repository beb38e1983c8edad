"""RPC handlers of the registry."""
