"""Compares the names of zones. Pure."""


def zone_key(zone: str) -> str:
    """Returns the form in which zones are compared: `A` and `a` are the same zone. Empty for an undeclared zone.

    The zones of clusters are written in small letters. Racks of brokers are compared by Kafka, which keeps to the case.
    """
    return zone.strip().lower()


def same_zone(one: str, other: str) -> bool:
    """Whether two declared zones are the same; an undeclared one is the same as none."""
    return zone_key(one) == zone_key(other) != ""
