"""The services of the mesh. Each owns its histories and never imports another."""
