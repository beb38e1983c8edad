"""A record on its way out: routes, channels, receipts."""
