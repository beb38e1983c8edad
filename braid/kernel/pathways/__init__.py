"""Pathways of records over streams: their points, the header that carries them, and sketches of latency. Pure."""
