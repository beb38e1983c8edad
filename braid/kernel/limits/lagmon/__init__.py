"""Bounds of what lagmon samples, keeps, follows and tells people about."""
