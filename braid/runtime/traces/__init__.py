"""Traces through a replica: of calls, of what is pushed to streams, and of the newest decisions."""
