"""Callers who prove themselves by signed tokens (JWT, RFC 7519) of an issuer: keys, verification, settings."""
