"""Mutual TLS of control RPCs: what both ends of a connection show and trust."""

from braid.host.tls import Tls as Tls
