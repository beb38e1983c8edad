"""Errors as browsers get them: HTTP status, the mesh's reason, message, field and remedy."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.kernel.errors import BraidError, Code, Invalid
from braid.rpc.documents import Document

_STATUS: Final[Mapping[Code, int]] = {
    Code.CANCELLED: 503,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 412,
    Code.ABORTED: 409,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}
# After these errors nothing may be shown that was read before: it is gone, or the caller has no right to it any more.
_FORGETTING: Final = frozenset({400, 401, 403, 404})


class Problem(NamedTuple):
    """An error of a request, or of a part of a page. `choices` are values that the field may have, if these are few."""

    status: int
    reason: str
    message: str
    field: str = ""
    remedy: str = ""
    choices: tuple[str, ...] = ()

    @property
    def forgets(self) -> bool:
        """Whether content that was read before must be hidden."""
        return self.status in _FORGETTING

    def document(self) -> Document:
        """The error as JSON has it."""
        return {
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "field": self.field,
            "remedy": self.remedy,
            **({"choices": list(self.choices)} if self.choices else {}),
        }


def problem_of(error: BraidError) -> Problem:
    """The problem that an error of the mesh is."""
    status = _STATUS.get(error.code, 500)
    choices = error.choices if isinstance(error, Invalid) else ()
    return Problem(status, error.reason, error.message, error.field, error.remedy, choices)
