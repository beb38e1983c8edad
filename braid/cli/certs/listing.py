"""The output of `certs show`: a row per CA and leaf, as a table or JSON. Reads only the directory."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from braid.certs.authority import BUNDLE, CERTIFICATE, KEY, Authority
from braid.certs.contents import Validity
from braid.certs.identity import trust_domain_id
from braid.certs.renewal import IssuedLeaf, LeafState, leaf_state
from braid.kernel.limits.access.certs import CA_RENEWAL_DAYS

_HEADER: Final = ("NAME", "ENDS", "DAYS", "STATE", "REACHED AT")


@dataclass(frozen=True)
class CertificateRow:
    """One certificate, as `certs show` prints it.

    Attributes:
        name: `ca`, `previous ca` or `service/registry-0`.
        spiffe_id: The SPIFFE id that it carries as a URI.
        dns: DNS names of a service.
        ips: IP addresses of a service.
        begins: ISO 8601, UTC.
        ends: ISO 8601, UTC.
        days_left: Days until it ends; negative afterwards.
        state: `ok`, or why it must be renewed.
        files: Paths of its files by `certificate`, `key`, `ca`; empty for a CA.
    """

    name: str
    spiffe_id: str
    dns: Sequence[str]
    ips: Sequence[str]
    begins: str
    ends: str
    days_left: float
    state: str
    files: dict[str, str]


def listed(authority: Authority, now: datetime, within_days: float | None) -> list[CertificateRow]:
    """Rows of everything in a directory: the CA first, then leaves by kind and name."""
    soon = CA_RENEWAL_DAYS if within_days is None else within_days
    rows = [_ca_row("ca", authority, authority.ca_validity, now, soon)]
    if authority.previous_validity is not None:
        rows.append(_ca_row("previous ca", authority, authority.previous_validity, now, 0))
    return [*rows, *(_leaf_row(authority, leaf, now, within_days) for leaf in authority.leaves())]


def table_text(rows: Sequence[CertificateRow]) -> str:
    """The rows as a table with a header."""
    cells = [_HEADER]
    for row in rows:
        reached = ",".join([*row.dns, *row.ips]) or "-"
        cells.append((row.name, row.ends[:10], f"{row.days_left:.0f}", row.state.upper(), reached))
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def to_json(authority: Authority, rows: Sequence[CertificateRow]) -> str:
    """The rows as a JSON document."""
    document = {
        "trust_domain": authority.trust_domain,
        "rotation": "under way" if authority.previous_validity else "none",
        "certificates": [asdict(row) for row in rows],
    }
    return json.dumps(document, indent=2)


def _leaf_row(authority: Authority, leaf: IssuedLeaf, now: datetime, within_days: float | None) -> CertificateRow:
    contents = leaf.contents
    directory = authority.path(contents.identity)
    files = {"certificate": CERTIFICATE, "key": KEY, "ca": BUNDLE}
    return CertificateRow(
        name=str(contents.identity),
        spiffe_id=contents.spiffe_id,
        dns=contents.reached.dns,
        ips=contents.reached.ips,
        **_times(contents.validity),
        days_left=round(contents.validity.days_left(now), 1),
        state=leaf_state(leaf, now, within_days).value,
        files={role: str(directory / name) for role, name in files.items()},
    )


def _ca_row(name: str, authority: Authority, validity: Validity, now: datetime, soon: float) -> CertificateRow:
    left = validity.days_left(now)
    state = LeafState.ENDED if left <= 0 else LeafState.ENDS_SOON if left <= soon else LeafState.OK
    return CertificateRow(
        name=name,
        spiffe_id=trust_domain_id(authority.trust_domain),
        dns=(),
        ips=(),
        **_times(validity),
        days_left=round(left, 1),
        state=state.value,
        files={},
    )


def _times(validity: Validity) -> dict[str, str]:
    return {"begins": validity.begins.isoformat(), "ends": validity.ends.isoformat()}
