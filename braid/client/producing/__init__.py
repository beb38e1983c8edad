"""Sends records: routes, channels, receipts."""
