"""Verbs that read histories: `events` and `why`."""
