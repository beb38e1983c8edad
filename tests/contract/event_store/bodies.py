"""All bodies of the contract, collected by importing where they are written."""

from tests.contract.event_store import appending, identity, leading, watching
from tests.contract.event_store.harness import BODIES

MODULES = (appending, identity, leading, watching)

__all__ = ["BODIES", "MODULES"]
