"""The lag monitor's RPC handlers and gauges."""
