"""Actions: each sends what the command that it shows would send, and nothing where it must not."""

import shlex
from typing import Any, Final

import pytest

from braid.cli.core.session import Session
from braid.kernel.errors import Invalid, Refused
from braid.rpc.documents import Document
from console.server.doing.actions import ACTIONS, act, action, command_of
from console.server.reads.reader import Reader
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

LEASE: Final = "logs/live/1/0"
GIVEN: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("move", {"stream": "logs", "to": "west", "lanes": ["live", "bulk"], "percent": 12.5, "reason": "it's; $(full)"}),
    ("move", {"stream": "logs", "away_from": "east", "dry_run": True}),
    ("move", {"stream": "logs", "spread": ["east=3", "west=1"], "lanes": ["live"], "partitions": 8}),
    ("cordon", {"cluster": "east"}),
    ("cordon", {"cluster": "east", "undo": True}),
    ("drain", {"group": "g", "member": "web-1", "reason": "host update"}),
    ("drain", {"group": "g", "member": "web-1", "undo": True, "reason": "left out"}),
    ("freeze", {"group": "g", "reason": "release"}),
    ("freeze", {"group": "g", "undo": True}),
    ("pin", {"group": "g", "lease": LEASE, "member": "web-1", "strict": True}),
    ("pin", {"group": "g", "lease": LEASE, "undo": True}),
    ("resume-lane", {"group": "g", "lane": "live", "member": "web-1"}),
    ("reset", {"group": "g", "stream": "logs", "lane": "live", "to": "earliest", "confirm": "g"}),
    ("reset", {"group": "g", "stream": "logs", "to": "2026-11-21T14:03:00+00:00", "reason": "--yes", "dry_run": True}),
    ("silence", {"alert": "stream/logs/lag/live/g", "for": "2h", "reason": "known"}),
    ("unsilence", {"alert": "stream/logs/lag/live/g"}),
    ("replay", {"stream": "logs", "filter": "error='A B' and group=g", "rate": 500, "dry_run": True}),
    ("replay", {"stream": "logs", "broadcast": True}),
    ("pause-replay", {"replay": "01ABC"}),
    ("resume-replay", {"replay": "01ABC"}),
    ("cancel-replay", {"replay": "01ABC", "confirm": "01ABC"}),
    ("decide", {"approval": "01ABC", "refuse": True, "reason": "no", "dry_run": True}),
)


def test_every_action_is_tried_here() -> None:
    assert {verb for verb, _ in GIVEN} == set(ACTIONS)


@pytest.mark.parametrize(("verb", "body"), GIVEN)
def test_the_command_sends_what_the_action_sends(
    verb: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[object, ...]] = []

    async def send(self: object, service: str, method: str, request: object, *others: object) -> None:
        sent.append((service, method, request))
        raise Refused("seen")

    monkeypatch.setattr(Reader, "change", send)
    monkeypatch.setattr(Session, "change", send)

    @virtual
    async def run() -> None:
        shell = await Shell().start()
        outcome = await act(ConsoleMesh(shell).reader(), verb, body)
        assert isinstance(outcome.error, Refused)
        program, *words = shlex.split(outcome.command)
        assert program == "braid"
        assert "seen" in (await shell.braid(*words)).err
        assert outcome.command == command_of(verb, {name: each for name, each in body.items() if name != "confirm"})

    run()
    assert len(sent) == 2
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("move", {"stream": "logs"}, "to"),
        ("move", {"stream": "logs", "to": "west", "away_from": "east"}, "to"),
        ("move", {"to": "west"}, "stream"),
        ("move", {"stream": 7, "to": "west"}, "stream"),
        ("move", {"stream": "logs", "to": "west", "colour": "red"}, "colour"),
        ("move", {"stream": "logs", "away_from": "east", "percent": 5}, "percent"),
        ("move", {"stream": "logs", "to": "west", "partitions": 2}, "partitions"),
        ("move", {"stream": "logs", "spread": ["east=nan"]}, "spread"),
        ("move", {"stream": "logs", "to": "west", "lanes": ["x"] * 101}, "lanes"),
        ("move", {"stream": "logs", "to": "w\u202est"}, "to"),
        ("move", {"stream": "--endpoint=evil:1", "to": "west"}, "stream"),
        ("move", {"stream": "x" * 5_000, "to": "west"}, "stream"),
        ("drain", {"group": "g", "member": "m", "dry_run": True}, "dry_run"),
        ("pin", {"group": "g", "lease": LEASE}, "member"),
        ("reset", {"group": "g", "stream": "logs", "to": "2026-11-21T14:03"}, "to"),
        ("silence", {"alert": "a", "for": "soon", "reason": "r"}, "for"),
        ("replay", {"stream": "logs", "rate": True}, "rate"),
    ],
)
def test_arguments_out_of_form_are_refused_by_name(verb: str, body: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        command_of(verb, body)
    assert refused.value.field == field


@pytest.mark.parametrize("confirm", [{}, {"confirm": ""}, {"confirm": "h"}])
def test_what_destroys_needs_the_name_again(confirm: dict[str, str]) -> None:
    found = action("reset")
    body: Document = {"group": "g", "stream": "logs", "to": "earliest", **confirm}
    with pytest.raises(Invalid) as refused:
        found.check_confirmed(found.given(body), body)
    assert refused.value.field == "confirm"
    dry: Document = {**body, "dry_run": True}
    found.check_confirmed(found.given(dry), dry)


@virtual
async def test_a_move_is_tried_and_then_made() -> None:
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    browser = await ConsoleMesh(shell).signed_in()
    body = {"stream": "logs", "to": "west", "lanes": ["live"]}
    tried = (await browser.post("/api/actions/move", {**body, "dry_run": True})).json
    assert tried["dry_run"] and tried["summary"] == "stream/logs would move: live to west"
    made = (await browser.post("/api/actions/move", {**body, "request_id": "click-1"})).json
    again = (await browser.post("/api/actions/move", {**body, "request_id": "click-1"})).json
    assert made["cli"] == "braid move stream logs --lane=live --to=west"
    assert made["result"]["moves"] and again["summary"] == "stream/logs unchanged: its traffic is there already"
    refused = await browser.post("/api/actions/move", {**body, "stream": "none"})
    assert (refused.status, refused.json["error"]["reason"]) == (404, "NOT_FOUND")
    assert refused.json["cli"].startswith("braid move stream none")


@virtual
async def test_actions_are_listed_with_their_arguments() -> None:
    browser = await ConsoleMesh(await Shell().start()).signed_in()
    listed = {each["verb"]: each for each in (await browser.get("/api/actions")).json["actions"]}
    assert set(listed) == set(ACTIONS)
    assert listed["reset"]["destructive"] and listed["reset"]["confirms"] == "group"
    assert (await browser.post("/api/actions/explode", {})).status == 404
    told = await browser.post("/api/actions/freeze/cli", {"group": "g"})
    assert told.json == {"cli": "braid freeze group g"}
