"""Tells from an address which machines can reach it."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host: a loopback address, or `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
