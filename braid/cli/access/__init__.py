"""`braid grant`, `revoke`, `can-i`: who may do what."""
