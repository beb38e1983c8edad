"""`braid apply` and `diff`: what manifests declare."""
