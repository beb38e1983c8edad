"""Groups that a change of the registry's channels concerns."""

from dataclasses import replace

from services.assigner.model.channels import SeenChannel
from services.assigner.model.commands import ObserveChannels, RegisterGroup
from services.assigner.model.group import Group, GroupSpec
from services.assigner.model.stream_readers import StreamReaders
from tests.unit.assigner.groups import History, seen, view


def reader(name: str, *streams: str, revision: int = 5) -> Group:
    """A group that reads these streams, as of a revision of the registry."""
    channels: list[SeenChannel] = [seen(f"{stream}/live/1") for stream in streams]
    history = History(state=Group(name))
    history.do(RegisterGroup(GroupSpec(tuple(sorted(streams))), view(revision, *channels)))
    return history.state


def test_readers_of_changed_streams_are_concerned() -> None:
    readers = StreamReaders()
    for state in (reader("b", "logs"), reader("a", "carts", "logs"), reader("c", "carts")):
        readers.follow(state, 5)
    assert readers.concerned(["logs"], 6) == ["a", "b"]
    assert readers.concerned(["carts", "logs"], 6) == ["a", "b", "c"]
    assert readers.concerned(["nowhere"], 6) == []


def test_a_group_is_followed_to_other_streams_and_its_end() -> None:
    readers, state = StreamReaders(), reader("a", "logs")
    readers.follow(state, 5)
    readers.follow(replace(state, spec=GroupSpec(("carts",))), 5)
    assert (readers.concerned(["logs"], 6), readers.concerned(["carts"], 6)) == ([], ["a"])
    readers.follow(Group("a"), 5)
    assert readers.concerned(["carts"], 6) == []


def test_a_history_ahead_of_the_view_is_concerned_when_reached() -> None:
    """Views older than the history were ignored, and with them what changed on other streams of the group."""
    readers = StreamReaders()
    readers.follow(reader("a", "logs", revision=100), 90)
    readers.follow(reader("b", "logs", revision=90), 90)
    assert readers.concerned(["nowhere"], 95) == []
    assert readers.concerned(["nowhere"], 100) == ["a"]
    assert readers.concerned(["nowhere"], 101) == []


def test_an_older_view_changes_no_group() -> None:
    """Why the above is needed: the group itself ignores such a view."""
    history = History(state=reader("a", "logs", revision=100))
    assert history.do(ObserveChannels(view(95, seen("logs/live/2")))) == []
