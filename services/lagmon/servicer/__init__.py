"""RPC handlers and gauges."""
