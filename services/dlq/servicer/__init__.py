"""RPC handlers of the dlq service."""
