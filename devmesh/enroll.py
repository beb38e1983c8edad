"""Tells a mesh where its Kafka clusters are: `python -m braid._mesh devmesh.enroll ENDPOINT NAME=HOST:PORT/ZONE …`.

The one step of a composed mesh that runs once. Told twice, it does nothing; told another address, it passes that on.
`BRAID_TLS_CERTIFICATE`, `BRAID_TLS_KEY` and `BRAID_TLS_CA` name what it shows, as everywhere.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from braid.host.tls.paths import tls_of_environment
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.ids import check_name
from devmesh.registration import Address, Registration

# Whoever creates a cluster needs the first, whoever retires one the second.
NEEDED: Final = ("registry", "assigner")
_USAGE: Final = "ENDPOINT[,ENDPOINT…] NAME=HOST:PORT/ZONE …"


def parse_clusters(words: Sequence[str]) -> dict[str, Address]:
    """Where each cluster is, from `NAME=HOST:PORT/ZONE`.

    Raises:
        Invalid: one is written otherwise, or named twice.
    """
    found: dict[str, Address] = {}
    for word in words:
        name, _, place = word.partition("=")
        bootstrap, _, zone = place.partition("/")
        if not (bootstrap and zone):
            raise Invalid(f"{word!r} does not say where a cluster is", field="NAME", remedy=f"write {_USAGE}")
        if check_name(name, "NAME") in found:
            raise Invalid(f"{name} is named twice", field="NAME")
        found[name] = Address(bootstrap, zone)
    return found


async def enroll(endpoints: Sequence[str], clusters: Mapping[str, Address]) -> list[str]:
    """Waits for the services, tells the registry, and waits until it finds every cluster healthy.

    Returns:
        Names of the clusters it had to be told about.

    Raises:
        BraidError: something did not come up in time, or an address is refused.
    """
    registration = Registration(endpoints, tls_of_environment(os.environ))
    try:
        await registration.wait_leaders(NEEDED)
        told = await registration.tell(clusters)
        await registration.wait_healthy(list(clusters))
    finally:
        await registration.close()
    return told


def main(arguments: Sequence[str]) -> int:
    """0 when the registry knows all; 2 for wrong usage, 1 when it could not be told, with the reason on stderr."""
    if len(arguments) < 2:
        print(f"usage: python -m braid._mesh devmesh.enroll {_USAGE}", file=sys.stderr)
        return 2
    try:
        clusters = parse_clusters(arguments[1:])
        told = asyncio.run(enroll(arguments[0].split(","), clusters))
    except BraidError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, Invalid) else 1
    print(f"the registry knows {', '.join(clusters)} ({', '.join(told) or 'none'} registered now)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
