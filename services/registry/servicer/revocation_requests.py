"""RPCs on revocations ⇄ commands. Any replica lists; the leader revokes and lifts."""

from collections.abc import Iterator, Sequence

from braid.api.registry.v1 import revocation_pb2 as api
from braid.kernel.access.requests import Need
from braid.kernel.access.revocations import Revocation, check_identity, identities_of, is_certificate
from braid.kernel.access.roles import MESH, Action
from braid.kernel.decider import Context
from braid.kernel.errors import NotFound, Refused
from braid.kernel.ports import Caller
from braid.runtime.access.control import AccessControl
from braid.runtime.access.revocation_codec import REVOCATIONS, revocation_message
from braid.runtime.access.revocation_history import Command, LiftRevocation, RevocationsState, RevokeIdentity
from braid.runtime.replica import Replica
from services.registry.servicer.request_context import page_of


class RevocationRequests:
    """The handlers of revocations at one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def revoke(self, request: api.RevokeIdentityRequest, caller: Caller) -> api.RevokeIdentityResponse:
        """Refuses an identity from now on, and answers with the revocation as it is recorded.

        Raises:
            Invalid: an identity, principal, end or reason out of form.
            Refused: it locks somebody out whom the caller may not think of, and the caller did not confirm that.
            Exhausted: there are as many revocations as there may be.
        """
        self._replica.require_leader()
        self._replica.identities.require_known()
        self._replica.access.require_known()
        identity = check_identity(request.identity, "identity")
        command = RevokeIdentity(identity, request.principal, request.reason, request.expire_time_ms)
        follows = list(self._consequences(identity, caller))
        if request.dry_run:
            state = self._preview(command, caller)
        elif follows and not request.confirmed and identity not in self._replica.identities.revoked.revocations:
            raise Refused(f"{identity} is not revoked yet: {'; '.join(follows)}", remedy="repeat it with --yes")
        else:
            state = await self._replica.identities.execute(command, caller)
        found = state.revocations.get(identity)
        if found is None:  # it was lifted again since the request was first answered
            raise NotFound(f"the revocation of {identity} was lifted since", remedy="see: braid get revocations")
        return api.RevokeIdentityResponse(revocation=self._message(found), consequences=follows)

    async def lift(self, request: api.LiftRevocationRequest, caller: Caller) -> api.Revocation:
        """Accepts an identity again, and answers with the revocation as it was.

        Raises:
            Invalid: an identity or a reason out of form.
            NotFound: it is not revoked; a repeated request is answered.
        """
        self._replica.require_leader()
        self._replica.identities.require_known()
        identity = check_identity(request.identity, "identity")
        before = self._replica.identities.revoked.revocations.get(identity)
        command = LiftRevocation(identity, request.reason)
        if request.dry_run:
            self._preview(command, caller)
        else:
            await self._replica.identities.execute(command, caller)
        return self._message(before or Revocation(identity))

    async def list(self, request: api.ListRevocationsRequest, caller: Caller) -> api.ListRevocationsResponse:
        """Revocations by identity; the one of an identity that is named.

        Raises:
            Invalid: the identity is out of form.
        """
        self._replica.identities.require_known()
        wanted = check_identity(request.identity, "identity") if request.identity else ""
        found = [each for each in self._replica.identities.revoked.all() if wanted in ("", each.identity)]
        page, token = page_of([(each.identity, each) for each in found], request.page_size, request.page_token)
        return api.ListRevocationsResponse(revocations=map(self._message, page), next_page_token=token)

    def _consequences(self, identity: str, caller: Caller) -> Iterator[str]:
        """Lists the consequences of a revocation that its author may not think of it; for people."""
        access = self._replica.access
        if identity in identities_of(caller):
            yield "it is what you call with: this is the last thing it may do"
        if is_certificate(identity):
            return
        if access.decide(identity, Need(Action.SERVE, MESH)).allowed:
            yield "it is a service: others refuse its calls, but it leads and serves until its process is stopped"
        if identity in (admins := self._admins(access)) and len(admins) == 1:
            yield "it is the last admin: then only the services' setting BRAID_ADMINS can name another one"

    def _admins(self, access: AccessControl) -> Sequence[str]:
        """Principals that may grant, and are not revoked."""
        revoked = self._replica.identities.revoked.revocations
        named = {*access.admins, *access.grants.principals} - revoked.keys()
        return [each for each in named if access.decide(each, Need(Action.GRANT, MESH)).allowed]

    def _preview(self, command: Command, caller: Caller) -> RevocationsState:
        """The state that the command would lead to; nothing is recorded."""
        state = self._replica.identities.revoked
        context = Context(self._replica.host.clock.now_ms(), caller.principal, caller.tenant)
        for event in REVOCATIONS.decider.decide(state, command, context):
            state = REVOCATIONS.decider.evolve(state, event, context)
        return state

    def _message(self, revocation: Revocation) -> api.Revocation:
        return revocation_message(revocation, self._replica.host.clock.now_ms())
