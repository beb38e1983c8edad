"""Pathways of records on the command line."""
