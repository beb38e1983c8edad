"""Verbs that read histories."""
