"""The identity of callers, as every transport decides it: by certificates, tokens or either; claims must agree.

What travels beside a request is a claim. Where a caller proves who it is, the claim must say the same; in plaintext
nothing is proved, and the claim is what there is.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.limits.telemetry import TRACEPARENT_BYTES_MAX, TRACESTATE_BYTES_MAX
from braid.kernel.ports import (
    NO_TRACE,
    Authenticator,
    Caller,
    CallOptions,
    Identity,
    PeerCertificate,
    Shown,
    TraceContext,
)
from braid.kernel.principals import TOKEN, principal_of

REQUEST_ID_KEY: Final = "braid-request-id"
TENANT_KEY: Final = "braid-tenant"
PRINCIPAL_KEY: Final = "braid-principal"
AUTHORIZATION_KEY: Final = "authorization"
TRACEPARENT_KEY: Final = "traceparent"
TRACESTATE_KEY: Final = "tracestate"
_BEARER: Final = "bearer "

Metadata = Iterable[tuple[str, str | bytes]]


class Certificates:
    """Takes callers for whom their certificates name."""

    async def identify(self, shown: Shown) -> Identity | None:
        """See `Authenticator.identify`. Raises `Unauthenticated` where the certificate names nobody."""
        names = shown.certificate
        return None if names is None else Identity(principal_of(names.uris, names.dns_names, names.subject))


class CertificateOrToken:
    """Takes callers for whom their certificates or tokens name. Over TLS nobody stays unknown."""

    def __init__(self, tokens: Authenticator | None = None) -> None:
        """`tokens` judges tokens; without it none is taken."""
        self._certificates = Certificates()
        self._tokens = tokens

    async def identify(self, shown: Shown) -> Identity | None:
        """See `Authenticator.identify`."""
        if shown.bearer:
            return await self._of_token(shown)
        known = await self._certificates.identify(shown)
        if known is None and shown.encrypted:
            raise Unauthenticated(
                "the call shows no token, and no certificate is asked for at this address",
                remedy="set BRAID_TOKEN_FILE; or call with a certificate at the replica's BRAID_TLS_LISTEN",
                metadata={"problem": "nothing_shown"},
            )
        return known

    async def _of_token(self, shown: Shown) -> Identity | None:
        if not shown.encrypted:
            raise Unauthenticated(
                "the call sends a token in plaintext, where a listener on the network has it now",
                remedy="send tokens over TLS only, and let the issuer withdraw this one",
                metadata={"problem": "token_in_plaintext"},
            )
        if shown.certificate is not None:
            raise Unauthenticated(
                "the call shows a certificate and a token",
                remedy="show one of them: a call has one identity",
                metadata={"problem": "two_identities"},
            )
        if self._tokens is None:
            raise Unauthenticated(
                "tokens are not taken here",
                remedy="show a certificate, or set BRAID_TLS_CLIENTS=either and BRAID_TOKEN_ISSUER for the service",
                metadata={"problem": "token_not_taken"},
            )
        return await self._tokens.identify(shown)


def call_metadata(options: CallOptions, *, claim: bool = True, bearer: str = "") -> Sequence[tuple[str, str]]:
    """Returns the metadata that travels beside a request. Raises `Invalid` for text that headers cannot carry.

    Without `claim` it says nothing of who calls: a certificate does, or the token `bearer`.
    """
    principal = options.principal if claim else ""
    pairs = ((REQUEST_ID_KEY, options.request_id), (TENANT_KEY, options.tenant), (PRINCIPAL_KEY, principal))
    for key, value in pairs:
        if not (value.isascii() and (value.isprintable() or not value)):
            raise Invalid(f"{value!r} is not printable ASCII", field=key.removeprefix("braid-").replace("-", "_"))
    traced = zip((TRACEPARENT_KEY, TRACESTATE_KEY), options.trace, strict=True)
    found = [(key, value) for key, value in (*pairs, *traced) if value]
    return [*found, (AUTHORIZATION_KEY, f"Bearer {bearer}")] if bearer else found


def bearer_of(metadata: Metadata | None) -> str:
    """The token in a call's metadata; empty where there is none.

    Raises:
        Unauthenticated: the metadata authorises in another way, or several times.
    """
    given = [value for key, value in metadata or () if key == AUTHORIZATION_KEY]
    if not given:
        return ""
    text = given[0]
    if len(given) > 1 or not isinstance(text, str) or text[: len(_BEARER)].lower() != _BEARER:
        what = "is given several times" if len(given) > 1 else "is no `Bearer TOKEN`"
        raise Unauthenticated(what, field=AUTHORIZATION_KEY, metadata={"problem": "token_malformed"})
    return text[len(_BEARER) :].strip()


def caller_of(
    metadata: Metadata | None, peer: str, identity: Identity | None, certificate: PeerCertificate | None = None
) -> Caller:
    """The caller, from a request's metadata and, where there are such, the proved identity and its certificate.

    Raises:
        Unauthenticated: it claims to be somebody else.
    """
    claimed, tenant, request_id = _said(metadata)
    trace = _trace_of(metadata)
    if identity is None:
        return Caller(claimed, tenant, request_id, peer, trace=trace)
    check_claim(claimed, identity.principal)
    return Caller(identity.principal, tenant, request_id, peer, True, identity.expire_ms, certificate, trace)


def _said(metadata: Metadata | None) -> tuple[str, str, str]:
    """The principal, tenant and request id that a caller says beside its request."""
    texts = {key: value for key, value in metadata or () if isinstance(value, str)}
    return texts.get(PRINCIPAL_KEY, ""), texts.get(TENANT_KEY, "default"), texts.get(REQUEST_ID_KEY, "")


def _trace_of(metadata: Metadata | None) -> TraceContext:
    """The trace context beside a call, within bounds; none where it is given twice, as W3C says."""
    parents = [value for key, value in metadata or () if key == TRACEPARENT_KEY]
    if len(parents) != 1 or not isinstance(parents[0], str) or len(parents[0]) > TRACEPARENT_BYTES_MAX:
        return NO_TRACE
    states = [value for key, value in metadata or () if key == TRACESTATE_KEY and isinstance(value, str)]
    state = ",".join(states)
    return TraceContext(parents[0], state if len(state) <= TRACESTATE_BYTES_MAX else "")


def refused_caller(metadata: Metadata | None, peer: str, identity: Identity | None) -> Caller:
    """Describes a caller that is refused because of its identity: not what it claims."""
    _, tenant, request_id = _said(metadata)
    return Caller(identity.principal if identity else "", tenant, request_id, peer, identity is not None)


def check_claim(claimed: str, verified: str) -> None:
    """Raises `Unauthenticated` where a principal is claimed that is not the verified one."""
    if claimed and claimed != verified:
        proof = "token" if verified.startswith(TOKEN) else "certificate"
        raise Unauthenticated(
            f"the call claims to come from {claimed!r}, but its {proof} is that of {verified}",
            remedy=f"send no {PRINCIPAL_KEY}: over TLS the {proof} says who calls",
            metadata={REFUSAL_FACT: RefusalReason.FALSE_CLAIM.value},
        )
