"""Bounds and times of responses to lag, with reasons. Seconds unless a name says otherwise."""

from collections.abc import Mapping
from typing import Final

RESPONSE_LOOK_SECONDS: Final = 1.0  # between two looks at a group that answers lag: a breach is answered within seconds
RESPONSE_LOOKS_APART_SECONDS: Final = 5.0  # looks farther apart are not in a row: what held in between is not known
RESPONSE_HOLD_SECONDS: Final = 3.0  # a need holds so long before it is answered: longer than a hand-over
RESPONSE_GAIN_SECONDS: Final = 60.0  # a response that has not helped by then is told to be exhausted
RESPONSE_AGAIN_SECONDS: Final = 3_600.0  # nothing that was undone is done again within it
RESPONSE_CALM: Final = 0.5  # of its target: lag below it has healed; between this and the target nothing changes
RESPONSE_COOLDOWN_DEFAULT: Final = 10.0  # between two responses of a policy: members apply one within a second
RESPONSE_COOLDOWN_MIN: Final = 5.0  # shorter than lag shows what a response has changed
RESPONSE_COOLDOWN_MAX: Final = 86_400.0
RESPONSE_UNDO_AFTER_DEFAULT: Final = 30.0
RESPONSE_UNDO_AFTER_MIN: Final = 10.0  # shorter ones follow every wave of a load
RESPONSE_UNDO_AFTER_MAX: Final = 7 * 86_400.0
RESPONSE_BUDGET_MAX: Final = 100  # of one policy: each response is an entry of the group's state
RESPONSE_POLICIES_MAX: Final = 100  # of a group
RESPONSE_UNDONE_MAX: Final = 400  # remembered, so that they are not done again too soon; the latest
RESPONSE_UNDONE_TOLD_MAX: Final = 20  # of them in an answer: more would only fill screens
RESPONSE_REASON_CHARS_MAX: Final = 400  # of a recorded reason
RESPONSE_SHARES_WHOLE: Final = 20  # shares that a response sets add up to about this: a lane's turn grows with them
RESPONSE_REACHES: Final[Mapping[str, float]] = {
    "shift-shares": 0.8,  # of the handlers; the rest is for the lanes that are not behind
    "split-backlog": 0.2,  # for the backlog, as `braid split` does
    "raise-concurrency": 2.0,
    "leave-slow-members": 0.1,  # of its capacity: a slow member is never left without any
}
RESPONSE_BUDGETS: Final[Mapping[str, int]] = {
    "shift-shares": 1,
    "split-backlog": 4,
    "raise-concurrency": 1,
    "leave-slow-members": 1,
}
MEMBER_HANDLERS_MAX: Final = 100_000  # of one member, as it says: more counts as that
RESPONSE_FACTOR_MAX: Final = 16.0  # by which members may be asked to run more handlers
RESPONSE_SPLIT_HOLD_SECONDS: Final = 10.0  # a split lasts as long as its backlog, so its need must be plain
RESPONSE_SPLIT_RECORDS_MIN: Final = 1_000  # below, a split does not gain: members refuse it
RESPONSE_BUSY_MIN: Final = 0.5  # of the handlers: with fewer busy, more would not help
RESPONSE_FULL: Final = 0.95  # of the handlers: with so many busy, a lane that needs more gets none lent
RESPONSE_LOAD_MAX: Final = 0.7  # of the former handlers: below it they carry the load again
