"""The members of a group that can receive messages, as streams come and go."""

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from services.assigner.liveness.member_streams import MemberKey, MemberStream, MemberStreams

GROUPS = ("g", "h")
STEPS = st.tuples(st.sampled_from(["set", "pop", "leave"]), st.sampled_from(GROUPS), st.sampled_from("abcde"))


@given(st.lists(STEPS, max_size=40))
def test_staying_members_have_a_stream_that_does_not_leave(steps: list[tuple[str, str, str]]) -> None:
    streams = MemberStreams()
    leaving: dict[MemberKey, bool] = {}
    for what, group, member in steps:
        key = MemberKey(group, member)
        if what == "set":
            streams.set(key, cast("MemberStream", object()))
            leaving[key] = False
        elif what == "pop":
            assert (streams.pop(key) is None) == (leaving.pop(key, None) is None)
        else:
            streams.leave(key)
            if key in leaving:
                leaving[key] = True
        for each in GROUPS:
            assert list(streams.staying(each)) == sorted(
                key.member for key, leaves in leaving.items() if key.group == each and not leaves
            )
            assert len(streams.of(each)) == sum(key.group == each for key in leaving)


def test_a_new_stream_of_a_member_that_left_stays() -> None:
    streams, key = MemberStreams(), MemberKey("g", "a")
    streams.set(key, cast("MemberStream", object()))
    streams.leave(key)
    assert streams.staying("g") == ()
    streams.set(key, cast("MemberStream", object()))
    assert streams.staying("g") == ("a",)
