"""The words of `braid can-i`: verbs of the command line and actions, as what a request of that kind needs."""

import pytest

from braid.kernel.access.verbs import Question, need_of
from braid.kernel.errors import Invalid


@pytest.mark.parametrize(
    ("question", "need"),
    [
        (("move", "stream", "logs"), "operate stream/logs"),
        (("create", "stream", "pay-in"), "change stream/pay-in"),
        (("close", "channel", "logs/live/1"), "change stream/logs"),
        (("cordon", "cluster", "east"), "operate cluster/east"),
        (("create", "cluster", ""), "change cluster/*"),
        (("freeze", "group", "indexer"), "operate group/indexer"),
        (("list", "stream", ""), "view stream/*"),
        (("get", "cluster", "east"), "view anything"),
        (("produce", "stream", "logs"), "produce stream/logs"),
        (("consume", "group", "*"), "consume group/*"),
        (("PRODUCE", "Stream", "pay-*"), "produce stream/pay-*"),
        (("grant", "mesh", ""), "grant mesh"),
        (("view", "", ""), "view mesh"),
        (("grant", "access", ""), "grant mesh"),
    ],
)
def test_words_are_read_as_what_a_request_needs(question: tuple[str, str, str], need: str) -> None:
    found = need_of(Question(*question))
    assert f"{found.action.value} {found.resource}" == need


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (("fly", "stream", "logs"), "verb"),
        (("move", "topic", "logs"), "kind"),
        (("produce", "stream", "Logs"), "name"),
        (("fly", "mesh", ""), "verb"),
    ],
)
def test_words_that_nobody_knows_are_named(question: tuple[str, str, str], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        need_of(Question(*question))
    assert refused.value.field == field


def test_a_wrong_verb_is_answered_with_those_of_the_kind() -> None:
    with pytest.raises(Invalid) as refused:
        need_of(Question("shift", "stream", "logs"))
    assert "move" in refused.value.remedy and "produce" in refused.value.remedy
