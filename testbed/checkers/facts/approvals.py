"""Facts about approvals, read from the histories at rest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A request of a principal waits for somebody else."""

    id: str
    asked_by: str


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A principal approved or refused it."""

    id: str
    by: str
    refused: bool


@dataclass(frozen=True, slots=True)
class ApprovalUsed:
    """A call has used it up."""

    id: str
    request_id: str


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """A call deleted a group."""

    group: str
    request_id: str
