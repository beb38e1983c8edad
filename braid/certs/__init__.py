"""Certificates for a mesh whose owners have no PKI: `braid certs` and `braid dev --secure` make them here.

`identity`, `contents` and `renewal` decide, without files or cryptography. `signing` creates keys and certificates,
`generations` replaces files, and `authority` combines them for one directory.
"""
