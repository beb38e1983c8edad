"""RPC handlers."""
