"""Facts of a run, in a journal in the order they happened. Values only.

A fact is an observation by a trustworthy source (a sink, a broker, the event store), never a claim of the code under
test.
"""

from testbed.checkers.facts.approvals import ApprovalAsked, ApprovalDecided, ApprovalUsed, GroupDeleted
from testbed.checkers.facts.channels import (
    DrainRecorded,
    EndsRecorded,
    GivenUp,
    LossRecorded,
    ReplayEnded,
    ReplayMade,
    ReplayMoved,
    ResetAsked,
    SealRecorded,
    Subscribed,
    TakenOver,
    Topic,
    TopicCreated,
    TopicDeleted,
)
from testbed.checkers.facts.leases import EventDecided, LeaseDropped, LeaseFreed, LeaseGranted, LeaseTold, Steady
from testbed.checkers.facts.processes import (
    Ailing,
    CutOff,
    Failed,
    FalselyCalled,
    FalselyReported,
    Flooded,
    HandlerEnded,
    HandlerStarted,
    Killed,
    Paused,
    ReplayAsked,
    Troubled,
)
from testbed.checkers.facts.quotas import QuotaChanged
from testbed.checkers.facts.records import (
    Acknowledged,
    Appended,
    Committed,
    DeadLettered,
    Destroyed,
    Expired,
    Indexed,
    Processed,
    Rejected,
    Replayed,
    Sent,
)
from testbed.checkers.facts.stores import (
    AppendAnswered,
    BatchAppended,
    BatchWatched,
    Folded,
    StoreBackedUp,
    StoreRestored,
)
from testbed.checkers.facts.tenants import GroupMade
from testbed.checkers.places import LogId, Place

__all__ = [
    "Acknowledged",
    "Ailing",
    "AppendAnswered",
    "Appended",
    "ApprovalAsked",
    "ApprovalDecided",
    "ApprovalUsed",
    "BatchAppended",
    "BatchWatched",
    "Committed",
    "CutOff",
    "DeadLettered",
    "Destroyed",
    "DrainRecorded",
    "EndsRecorded",
    "EventDecided",
    "Expired",
    "Fact",
    "Failed",
    "FalselyCalled",
    "FalselyReported",
    "Flooded",
    "Folded",
    "GivenUp",
    "GroupDeleted",
    "HandlerEnded",
    "HandlerStarted",
    "Indexed",
    "Killed",
    "LeaseDropped",
    "LeaseFreed",
    "LeaseGranted",
    "LeaseTold",
    "LogId",
    "LossRecorded",
    "Paused",
    "Place",
    "Processed",
    "QuotaChanged",
    "Rejected",
    "ReplayAsked",
    "ReplayEnded",
    "ReplayMade",
    "ReplayMoved",
    "Replayed",
    "ResetAsked",
    "SealRecorded",
    "Sent",
    "Steady",
    "StoreBackedUp",
    "StoreRestored",
    "Subscribed",
    "TakenOver",
    "Topic",
    "TopicCreated",
    "TopicDeleted",
    "Troubled",
]

Fact = (
    Sent
    | ApprovalAsked
    | GroupMade
    | ApprovalDecided
    | ApprovalUsed
    | GroupDeleted
    | QuotaChanged
    | FalselyCalled
    | FalselyReported
    | Acknowledged
    | Appended
    | Processed
    | Rejected
    | DeadLettered
    | Indexed
    | Replayed
    | Expired
    | Destroyed
    | Committed
    | HandlerStarted
    | HandlerEnded
    | Failed
    | Troubled
    | Flooded
    | ReplayAsked
    | Paused
    | Killed
    | CutOff
    | LeaseTold
    | LeaseDropped
    | Steady
    | BatchAppended
    | Ailing
    | Folded
    | BatchWatched
    | AppendAnswered
    | StoreBackedUp
    | StoreRestored
    | EventDecided
    | LeaseGranted
    | LeaseFreed
    | ReplayMade
    | ReplayMoved
    | ReplayEnded
    | Subscribed
    | SealRecorded
    | EndsRecorded
    | DrainRecorded
    | ResetAsked
    | LossRecorded
    | GivenUp
    | TopicCreated
    | TakenOver
    | TopicDeleted
)
