"""HTTP: requests of browsers, and the answers to them."""
