"""`braid certs`: certificates for a mesh whose owners have no PKI."""
