"""Verbs that change groups: members, leases, rules, progress."""
