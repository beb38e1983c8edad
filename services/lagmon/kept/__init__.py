"""Lag and rates over time: a ring of steps in two resolutions, their files, and what is read of them."""
