"""Policies that answer lag: which response a group's facts call for, and when one is undone. Pure."""
