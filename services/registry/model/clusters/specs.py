"""Declarations of clusters and their validation. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.names import BOOTSTRAP_SERVERS_MAX
from services.registry.model.clusters.thresholds import check_overrides

TOPIC_PREFIX_DEFAULT = "braid."
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The declaration of a cluster. `capacity` counts partitions of active channels, 0 for no limit.

    `health` holds the cluster's own thresholds by name (`thresholds.py`).
    """

    bootstrap: str
    zone: str = ""
    capacity: int = 0
    security_profile: str = ""
    topic_prefix: str = TOPIC_PREFIX_DEFAULT
    allow_auto_create_topics: bool = False
    health: Mapping[str, float] = field(default_factory=dict)


def check_cluster_spec(spec: ClusterSpec) -> ClusterSpec:
    """Returns the declaration with defaults filled in.

    Raises:
        Invalid: a field is out of form; `field` names it.
    """
    servers = [server.strip() for server in spec.bootstrap.split(",")]
    if len(servers) > BOOTSTRAP_SERVERS_MAX:
        message = f"{len(servers)} servers are more than {BOOTSTRAP_SERVERS_MAX}"
        raise Invalid(message, field="spec.bootstrap", remedy="name a few brokers: they name the others")
    for server in servers:
        found = _ADDRESS.fullmatch(server)
        if found is None or not 0 < int(found.group(2)) < 65_536:
            raise Invalid(f"{server!r} is not host:port", field="spec.bootstrap", remedy="write host:port,host:port")
    if spec.zone:
        check_name(spec.zone, "spec.zone")
    if spec.security_profile:
        check_name(spec.security_profile, "spec.security_profile")
    if spec.capacity < 0:
        raise Invalid("a capacity cannot be negative", field="spec.capacity", remedy="0 sets no limit")
    check_overrides(spec.health)
    prefix = spec.topic_prefix or TOPIC_PREFIX_DEFAULT
    if not _PREFIX.fullmatch(prefix):
        remedy = "use 1 to 64 letters, digits, dots, hyphens and underscores"
        raise Invalid(f"{prefix!r} cannot begin a topic's name", field="spec.topic_prefix", remedy=remedy)
    return replace(spec, bootstrap=",".join(servers), topic_prefix=prefix)
