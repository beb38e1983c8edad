"""What pages show, read from the services' control APIs."""
