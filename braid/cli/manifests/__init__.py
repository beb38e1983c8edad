"""`braid apply` and `diff`: bring the mesh to what manifests declare."""
