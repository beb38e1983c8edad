"""A real Prometheus for tests: its binaries, and servers that scrape a mesh."""
