"""`describe --at`: what is told of a moment is what was told at that moment, or is refused."""

import json
from datetime import UTC, datetime
from typing import Final

from tests.unit.cli.mesh import Result, Shell, virtual

_MEASURED: Final = ("evidence", "load", "registry_revision")  # looked at now and then, and not recorded as such


def moment(shell: Shell) -> str:
    """The present, as `--at` takes it."""
    return datetime.fromtimestamp(shell.me.host.clock.now_ms() / 1_000, UTC).isoformat()


def recorded(told: Result) -> object:
    """A described object without the fields that histories do not record."""
    assert told.code == 0, told
    document = json.loads(told.out)
    for name in _MEASURED:
        document["status"].pop(name, None)
    for group in document.get("groups", []):
        group["status"].pop("registry_revision", None)
    return document


@virtual
async def test_a_described_moment_is_what_was_described_then() -> None:
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2", "--clusters", "east,west")).code == 0
    await shell.me.host.clock.sleep(5)
    subjects = (("stream", "logs"), ("cluster", "east"), ("cluster", "west"))
    then, told = moment(shell), {each: await shell.braid("describe", *each, "-o", "json") for each in subjects}
    await shell.me.host.clock.sleep(1)
    assert (await shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    await shell.me.host.clock.sleep(30)
    assert (await shell.braid("cordon", "cluster", "east")).code == 0
    for subject, before in told.items():
        again = await shell.braid("describe", *subject, "--at", then, "-o", "json")
        now = await shell.braid("describe", *subject, "-o", "json")
        assert recorded(again) == recorded(before), subject
        assert recorded(now) != recorded(before), subject
    assert "logs/live/1" in (await shell.braid("describe", "cluster", "east", "--at", then)).out
    assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
    assert recorded(await shell.braid("describe", "stream", "logs", "--at", then, "-o", "json")) == recorded(
        told["stream", "logs"]
    ), "it is deleted, and its past is not"


@virtual
async def test_what_did_not_exist_or_has_no_past_is_refused() -> None:
    shell = await Shell().start("east")
    before = moment(shell)
    await shell.me.host.clock.sleep(5)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    early = await shell.braid("describe", "stream", "logs", "--at", before)
    assert early.code == 4 and "there was no stream logs at that moment" in early.err
    assert "braid events --for stream/logs" in early.err
    lease = await shell.braid("describe", "lease", "logs/live/1/0", "--at", before)
    assert lease.code == 2 and "braid why lease" in lease.err
    assert (await shell.braid("describe", "replay", "x", "--at", before)).code == 2
    assert (await shell.braid("describe", "stream", "logs", "--at", "noon")).code == 2


@virtual
async def test_lists_of_a_moment_are_what_was_listed_then() -> None:
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2", "--clusters", "east,west")).code == 0
    await shell.me.host.clock.sleep(5)
    kinds = ("streams", "clusters", "groups")
    then, told = moment(shell), {each: await shell.braid("get", each, "-o", "json") for each in kinds}
    await shell.me.host.clock.sleep(5)
    assert (await shell.braid("create", "stream", "orders", "--lane", "live=1")).code == 0
    assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
    shell.kafka.add_cluster("north")
    assert (await shell.braid("create", "cluster", "north", "--bootstrap", "north:9092")).code == 0
    for kind, before in told.items():
        again = await shell.braid("get", kind, "--at", then, "-o", "json")
        assert again.code == 0, again
        assert again.out == before.out, kind
    assert "north" in (await shell.braid("get", "clusters")).out
    one = await shell.braid("get", "stream", "logs", "--at", then, "-o", "name")
    assert (one.code, one.out) == (0, "stream/logs\n")
    gone = await shell.braid("get", "stream", "orders", "--at", then)
    assert gone.code == 4 and "there was no stream orders at that moment" in gone.err
    assert (await shell.braid("get", "streams", "--at", then, "--watch")).code == 2
    assert (await shell.braid("get", "leases", "--at", then)).code == 2
    future = await shell.braid("get", "streams", "--at", "2099-01-01T00:00:00Z")
    assert future.code == 2 and "has not been yet" in future.err
