"""The kinds of responses, in the order in which they are tried: what costs others least comes first."""

from collections.abc import Sequence
from typing import Final

from services.assigner.policy.responses.answering import KindOfResponse
from services.assigner.policy.responses.leave_slow import LeaveSlowMembers
from services.assigner.policy.responses.raise_concurrency import RaiseConcurrency
from services.assigner.policy.responses.shift_shares import ShiftShares
from services.assigner.policy.responses.split_backlog import SplitBacklogs

KINDS: Final[Sequence[KindOfResponse]] = (ShiftShares(), LeaveSlowMembers(), RaiseConcurrency(), SplitBacklogs())
