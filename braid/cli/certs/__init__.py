"""`braid certs`: the certificates of a mesh whose owners have no PKI of their own."""
