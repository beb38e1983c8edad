"""Alerts of the lag monitor: rules over lag and the mesh's state, and the history of what fired."""
