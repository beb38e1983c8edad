"""The contents of pages, read from the services' control APIs."""
