"""Records are found in the order of time over partitions and clusters, within bounds, and an answer can go on."""

import asyncio

import pytest

from braid.kernel.ports import TopicPartition
from console.server.messages import budget
from tests.support.console.stream_records import browse, looked_at, values, write
from tests.unit.cli.mesh import virtual


@virtual
async def test_the_newest_records_come_first_over_all_partitions() -> None:
    mesh = await looked_at(partitions=3)
    for number in range(30):  # partition 0 holds the newest third, 2 the oldest
        write(mesh, b"%d" % number, at_ms=number, partition=2 - number // 10)
    browser = await mesh.signed_in()
    first = await browse(browser, limit=12)
    assert values(first) == [str(number) for number in range(29, 17, -1)]
    assert (first.json["ended_by"], first.json["more"]) == ("rows", True)
    second = await browse(browser, limit=12, positions=first.json["positions"])
    assert values(second) == [str(number) for number in range(17, 5, -1)]
    third = await browse(browser, limit=12, positions=second.json["positions"])
    assert values(third) == [str(number) for number in range(5, -1, -1)]
    assert (third.json["ended_by"], third.json["more"]) == ("end", False)


@virtual
async def test_the_oldest_come_first_from_earliest_a_time_or_an_offset() -> None:
    mesh = await looked_at(partitions=2)
    for number in range(10):
        write(mesh, b"%d" % number, at_ms=number, partition=number % 2)
    browser = await mesh.signed_in()
    first = await browse(browser, from_="earliest", limit=4)
    assert values(first) == ["0", "1", "2", "3"]
    assert values(await browse(browser, from_="earliest", positions=first.json["positions"])) == list("456789")
    assert values(await browse(browser, from_="2023-11-14T22:13:20.006Z")) == ["6", "7", "8", "9"]
    assert values(await browse(browser, from_="offset:3", partition=1)) == ["7", "9"]
    assert values(await browse(browser, from_="offset:99", partition=1)) == []


@virtual
async def test_an_answer_that_went_on_sees_what_came_since() -> None:
    mesh = await looked_at()
    write(mesh, b"one")
    browser = await mesh.signed_in()
    first = await browse(browser, from_="earliest")
    assert first.json["more"]
    write(mesh, b"two")
    assert values(await browse(browser, from_="earliest", positions=first.json["positions"])) == ["two"]


@virtual
async def test_a_filter_looks_further_back_until_enough_match() -> None:
    mesh = await looked_at(partitions=2)
    for number in range(400):
        write(mesh, b'{"level": "%s", "n": %d}' % (b"info" if number % 50 else b"error", number), at_ms=number)
    browser = await mesh.signed_in()
    answer = await browse(browser, filter="json.level=error and json.n<300", limit=3)
    assert values(answer) == [f'{{"level": "error", "n": {number}}}' for number in (250, 200, 150)]
    everything = await browse(browser, filter="json.level=fatal")
    assert (values(everything), everything.json["looked_at"]["records"]) == ([], 400)
    assert not everything.json["more"]


@virtual
async def test_records_of_drained_channels_are_found_on_their_cluster() -> None:
    mesh = await looked_at("east", "west")
    write(mesh, b"before")
    assert (await mesh.shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    write(mesh, b"after", at_ms=1, topic="braid.logs.live.2", cluster="west")
    browser = await mesh.signed_in()
    answer = await browse(browser)
    assert values(answer) == ["after", "before"]
    assert [row["cluster"] for row in answer.json["rows"]] == ["west", "east"]
    assert values(await browse(browser, cluster="east")) == ["before"]


@virtual
async def test_a_dead_cluster_is_told_and_the_others_are_shown() -> None:
    mesh = await looked_at("east", "west")
    write(mesh, b"before")
    await mesh.shell.braid("move", "stream", "logs", "--to", "west")
    write(mesh, b"after", at_ms=1, topic="braid.logs.live.2", cluster="west")
    mesh.kafka.cut("east")
    browser = await mesh.signed_in()
    answer = await browse(browser)
    assert values(answer) == ["after"]
    assert [each["cluster"] for each in answer.json["absent"]] == ["east"]
    assert answer.json["looked_at"]["ms"] < 5_000
    mesh.kafka.mend("east")  # what it holds comes with the next answer
    assert values(await browse(browser, positions=answer.json["positions"])) == ["before"]


@virtual
async def test_a_cluster_that_comes_back_goes_on_where_it_stopped() -> None:
    mesh = await looked_at("east", "west")
    for number in range(4):
        write(mesh, b"%d" % number, at_ms=number)
    await mesh.shell.braid("move", "stream", "logs", "--to", "west")
    browser = await mesh.signed_in()
    first = await browse(browser, limit=2)
    assert values(first) == ["3", "2"]
    mesh.kafka.cut("east")
    second = await browse(browser, limit=2, positions=first.json["positions"])
    assert (values(second), len(second.json["absent"])) == ([], 1)
    mesh.kafka.mend("east")
    assert values(await browse(browser, limit=2, positions=second.json["positions"])) == ["1", "0"]


@virtual
async def test_a_cluster_that_refuses_the_console_says_why() -> None:
    mesh = await looked_at()
    mesh.kafka.deny("east")
    answer = await browse(await mesh.signed_in())
    assert answer.status == 200
    assert "refuses this client" in answer.json["absent"][0]["reason"]


@virtual
async def test_a_batch_that_nobody_can_decode_is_named() -> None:
    mesh = await looked_at()
    for value in (b"a", b"b", b"c"):
        write(mesh, value)
    mesh.shell.kafka.named("east").damage(TopicPartition("braid.logs.live.1", 0), 1, "damaged: a bomb of 512 MiB")
    answer = await browse(await mesh.signed_in())
    assert values(answer) == ["c", "a"]
    damaged = answer.json["damaged"][0]
    assert (damaged["first_offset"], damaged["reason"]) == (1, "damaged: a bomb of 512 MiB")


@pytest.mark.parametrize("begin", ["newest", "earliest"])
def test_what_retention_takes_while_it_is_read_is_passed(begin: str) -> None:
    @virtual
    async def run() -> None:
        mesh = await looked_at()
        for number in range(2_000):
            write(mesh, b"%d" % number, at_ms=number)
        mesh.shell.kafka_latency_seconds = 0.1
        browser = await mesh.signed_in()
        asking = asyncio.ensure_future(browse(browser, from_=begin, filter="value=1999 or value=3"))
        await asyncio.sleep(0.9)
        mesh.shell.kafka.named("east").expire(TopicPartition("braid.logs.live.1", 0), 1_990)
        answer = await asking
        assert "1999" in values(answer)
        assert (answer.json["absent"], answer.json["ended_by"]) == ([], "end")
        assert answer.json["looked_at"]["records"] < 1_990  # it was taken meanwhile

    run()


@virtual
async def test_what_retention_takes_meanwhile_is_no_error() -> None:
    mesh = await looked_at()
    for number in range(20):
        write(mesh, b"%d" % number, at_ms=number)
    browser = await mesh.signed_in()
    first = await browse(browser, from_="earliest", limit=2)
    mesh.shell.kafka.named("east").expire(TopicPartition("braid.logs.live.1", 0), 15)
    rest = await browse(browser, from_="earliest", positions=first.json["positions"])
    assert values(rest) == ["15", "16", "17", "18", "19"]


def test_bytes_end_an_answer_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MESSAGES_BYTES_MAX", 10_000)

    @virtual
    async def run() -> None:
        mesh = await looked_at()
        for number in range(12):
            write(mesh, b"%02d" % number + b"x" * 3_000, at_ms=number)
        browser = await mesh.signed_in()
        seen: list[str] = []
        positions: dict[str, int] = {}
        for _ in range(12):
            answer = await browse(browser, positions=positions)
            positions = answer.json["positions"]
            seen += [value[:2] for value in values(answer)]
            if not answer.json["more"]:
                break
            assert answer.json["ended_by"] == "bytes"
            assert answer.json["looked_at"]["bytes"] <= 40_000
        assert seen == [f"{number:02}" for number in range(11, -1, -1)]

    run()


def test_a_record_larger_than_the_bound_is_still_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MESSAGES_BYTES_MAX", 200_000)

    @virtual
    async def run() -> None:
        mesh = await looked_at()
        for number in range(4):  # a fetch brings one of them, and the second is beyond what an answer may cost
            write(mesh, b"%d" % number + b"x" * 300_000, at_ms=number)
        browser = await mesh.signed_in()
        seen: list[str] = []
        positions: dict[str, int] = {}
        for _ in range(8):
            answer = await browse(browser, positions=positions)
            positions = answer.json["positions"]
            seen += [value[0] for value in values(answer)]
            if not answer.json["more"]:
                break
        assert seen == ["3", "2", "1", "0"]

    run()


def test_time_ends_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MESSAGES_SECONDS", 2.0)

    @virtual
    async def run() -> None:
        mesh = await looked_at()
        for number in range(3_000):
            write(mesh, b"%d" % number, at_ms=number)
        mesh.shell.kafka_latency_seconds = 0.2
        browser = await mesh.signed_in()
        answer = await browse(browser, filter="value=none", from_="earliest")
        assert answer.json["ended_by"] == "time" and answer.json["more"]
        assert 0 < answer.json["looked_at"]["records"] < 3_000
        assert answer.json["looked_at"]["ms"] < 3_000

    run()


@virtual
async def test_wrong_questions_name_the_field() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    wrong: list[tuple[dict[str, object], str, int]] = [
        ({"from_": "yesterday"}, "from", 400),
        ({"from_": "offset:x", "partition": 0}, "from", 400),
        ({"from_": "offset:1"}, "partition", 400),
        ({"lane": "bulk"}, "lane", 404),
        ({"lane": "dlq"}, "lane", 400),
        ({"cluster": "west"}, "cluster", 404),
        ({"partition": 7}, "partition", 404),
        ({"partition": -1}, "partition", 400),
        ({"filter": "level=error"}, "filter", 400),
        ({"limit": 501}, "limit", 400),
        ({"form": "xml"}, "form", 400),
        ({"positions": {"a": -1}}, "positions", 400),
        ({"topic": "__consumer_offsets"}, "topic", 400),
    ]
    for body, field, status in wrong:
        answer = await browse(browser, **body)
        assert (answer.status, answer.json["error"]["field"]) == (status, field), body
    assert (await browser.post("/api/messages/nothing", {})).status == 404
