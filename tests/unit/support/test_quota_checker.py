"""The checker of quotas at Kafka turns red over the smallest journal that violates it, and counts what was recorded."""

import json

from braid.kernel.ports import HistoryId
from testbed.checkers import check
from testbed.checkers.facts import Fact, Folded, QuotaChanged
from testbed.checkers.quotas import OwnQuotas

RATE = "producer_byte_rate"
THEIRS = frozenset({("taken", "", RATE)})
SET = QuotaChanged("east", "shop", "", RATE, 5.0)


def folded(sequence: int, *users: str, cluster: str = "east", value: int = 5) -> Fact:
    quotas = [{"user": user, "client_id": "", "key": RATE, "value": value} for user in users]
    state = json.dumps({"client_quotas": quotas}).encode()
    return Folded("registry-0", HistoryId("registry", "cluster", cluster), sequence, state)


def red(*journal: Fact) -> bool:
    return bool(check([OwnQuotas(THEIRS)], journal))


def test_a_quota_that_no_history_remembers_is_seen() -> None:
    assert red(SET) and red(folded(1, "shop", cluster="west"), SET) and red(folded(1, "shop"), folded(2), SET)
    assert not red(folded(1, "shop"), SET)
    assert not red(folded(2, "shop"), folded(1), SET), "a replica that is behind says nothing new"


def test_a_quota_of_somebody_else_is_seen_whoever_remembers_it() -> None:
    assert red(folded(1, "taken"), QuotaChanged("east", "taken", "", RATE, None))


def test_each_recorded_value_is_told_once() -> None:
    checker, told = OwnQuotas(THEIRS), list[None]()
    checker.recorded = lambda: told.append(None)
    for fact in (folded(1, "shop"), folded(1, "shop"), folded(2, "shop", value=6), folded(3)):
        assert not list(checker.see(fact))
    assert len(told) == 2
