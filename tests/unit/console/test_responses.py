"""Responses of groups to lag, as rows of the page of alerts."""

from braid.api.assigner.v1 import group_pb2
from braid.api.assigner.v1 import responses_pb2 as responses
from console.server.reads.assigner import response_rows


def test_responses_in_force_and_undone_are_rows_of_their_group() -> None:
    taken = responses.GroupResponse(
        kind=responses.RESPONSE_KIND_SHIFT_SHARES,
        lane="live",
        state=responses.RESPONSE_STATE_APPLIED,
        before=[responses.ResponseValue(name="live", value=0.5)],
        after=[responses.ResponseValue(name="live", value=0.8)],
        reason="lag is 97 s",
        since_ms=7,
    )
    undone = responses.UndoneResponse(kind=responses.RESPONSE_KIND_SPLIT_BACKLOG, subject="logs/live/1/0", time_ms=9)
    group = group_pb2.Group(name="g", responses=responses.GroupResponses(responses=[taken], undone=[undone]))
    rows = dict(response_rows(group))
    assert list(rows) == ["g/shift_shares/live/", "g/split_backlog//logs/live/1/0/9"]
    first, second = rows.values()
    assert (first["group"], first["state"], first["before"], first["after"]) == ("g", "applied", "live 0.5", "live 0.8")
    assert (second["state"], second["since_ms"], second["kind"]) == ("undone", 9, "split_backlog")
