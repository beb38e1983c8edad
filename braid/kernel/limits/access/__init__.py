"""Bounds of certificates, tokens, grants and the record of who used them."""
