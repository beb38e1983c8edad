"""`braid silence`: silences of alerts."""
