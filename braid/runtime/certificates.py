"""The certificates that a replica uses, as it tells others of them. Judges nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.api.mesh.v1.endpoint_pb2 import (
    CERTIFICATE_USE_AUTHORITY,
    CERTIFICATE_USE_REPLICA,
    CERTIFICATE_USE_STORE,
    CertificateValidity,
)

if TYPE_CHECKING:
    from braid.api.mesh.v1.endpoint_pb2 import CertificateUse
    from braid.host.tls.files import TlsFiles, ValidTime


def certificates_in_use(own: "TlsFiles | None", store: "TlsFiles | None") -> Sequence[CertificateValidity]:
    """Returns the times of a replica's certificates as its files say now; looks at them where that is due.

    Args:
        own: What it shows to callers and to other replicas; None in plain text.
        store: What it shows to the event store alone; None where there is nothing of the kind.
    """
    found = []
    if own is not None:
        now = own.current()
        found = [_message(CERTIFICATE_USE_REPLICA, now.valid), _message(CERTIFICATE_USE_AUTHORITY, now.authority)]
    if store is not None:
        found.append(_message(CERTIFICATE_USE_STORE, store.current().valid))
    return [each for each in found if each is not None]


def _message(use: "CertificateUse.ValueType", valid: "ValidTime | None") -> CertificateValidity | None:
    if valid is None:
        return None
    begin_ms, end_ms = round(valid.begins_at * 1_000), round(valid.ends_at * 1_000)
    return CertificateValidity(use=use, begin_time_ms=begin_ms, end_time_ms=end_ms)
