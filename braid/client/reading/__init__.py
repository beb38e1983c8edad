"""Reads of ranges, without a group."""
