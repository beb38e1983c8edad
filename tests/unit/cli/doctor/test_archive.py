"""`archive verify` and what `doctor` says of archives: whole, failing, lagging, with a hole, with a changed byte."""

import pytest

from braid.api.mesh.v1.archive_pb2 import ArchiveStatus
from braid.api.mesh.v1.event_pb2 import EventGap
from braid.archive.memory import MemoryArchive
from braid.cli.doctor.archive_findings import LAGGING_EVENTS, ArchiveFacts, check_archive
from braid.cli.doctor.findings import Level
from tests.support.virtual_time import run_virtual
from tests.unit.cli.mesh import Shell


def facts(leader: bool = True, problems: tuple[EventGap, ...] = (), **status: object) -> ArchiveFacts:
    """The answer of a replica with an archive."""
    told = ArchiveStatus(location="file:///a", size_bytes=2_048, retention_days=90)
    for name, value in status.items():
        setattr(told, name, value)
    return ArchiveFacts("registry", "registry-0", leader, told, problems)


def test_archives_that_are_well_or_not_set_are_no_trouble() -> None:
    [well] = check_archive(facts(waiting_events=LAGGING_EVENTS), 0)
    assert well.level is Level.OK and "90 days" in well.message
    assert check_archive(ArchiveFacts("registry", "registry-0", True, ArchiveStatus()), 0) == []


def test_an_archives_failure_lag_and_holes_come_with_a_remedy() -> None:
    failing = facts(failing_reason="disk full", failing_since_ms=1_000, waiting_events=700, waiting_history="a/b/c")
    [found] = check_archive(failing, 301_000)
    assert found.level is Level.FAIL and "5m" in found.message and "700 events of a/b/c" in found.message
    assert "16384" in found.remedy
    [follower] = check_archive(facts(leader=False, replica_failing_reason="disk full"), 0)
    assert follower.level is Level.WARN and "disk full" in follower.message
    [lagging] = check_archive(facts(waiting_events=LAGGING_EVENTS + 1, waiting_history="a/b/c"), 0)
    assert lagging.level is Level.WARN and "lags" in lagging.message
    gaps = tuple(
        EventGap(history="registry/stream/logs", first=n, last=n, reason="it was changed") for n in range(7, 15)
    )
    holes = check_archive(facts(problems=gaps), 0)
    assert len(holes) == 6 and holes[0].message == "event 7 of registry/stream/logs: it was changed"
    assert "3 holes more" in holes[-1].message and all("archive verify" in each.remedy for each in holes)


@pytest.fixture
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots every eight events, so that few commands fill an archive."""
    monkeypatch.setattr("braid.runtime.histories.fold.SNAPSHOT_EVERY_EVENTS", 8)


async def grown() -> tuple[Shell, MemoryArchive]:
    """A mesh whose stream has archived events, and its registry's archive."""
    shell = Shell()
    archive = shell.archives["registry-0"] = MemoryArchive()
    await shell.start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1", "--clusters", "east,west")).code == 0
    for cluster in ("west", "east", "west"):
        assert (await shell.braid("move", "stream", "logs", "--to", cluster)).code == 0
        await shell.me.host.clock.sleep(20)
    return shell, archive


async def restarted(shell: Shell) -> None:
    """Nothing of the archive is open any more."""
    shell.kill("registry-0")
    await shell.replica("registry-0")
    await shell.me.host.clock.sleep(5)


@pytest.mark.usefixtures("short_intervals")
def test_verify_and_doctor_name_changed_events_and_lost_objects() -> None:
    async def scenario() -> None:
        shell, archive = await grown()
        whole = await shell.braid("archive", "verify")
        assert whole.code == 0, whole
        assert "registry-0:" in whole.out and "whole" in whole.out and "assigner-0" in whole.err
        assert "its archive memory is whole" in " ".join((await shell.braid("doctor")).out.split())
        segments = sorted(name for name in archive.objects if "/stream/logs/" in name and name.endswith(".seg"))
        assert len(segments) > 1
        kept = dict(archive.objects)
        archive.objects[segments[1]] = (
            kept[segments[1]][:-40] + bytes([kept[segments[1]][-40] ^ 1]) + kept[segments[1]][-39:]
        )
        changed = await shell.braid("archive", "verify", "--for", "stream/logs")
        assert changed.code == 4 and "registry/stream/logs is damaged at event" in changed.out
        archive.objects.clear()
        archive.objects.update(kept)
        del archive.objects[segments[1]]
        await restarted(shell)
        gone = await shell.braid("archive", "verify")
        assert gone.code == 4 and "of registry/stream/logs: no archive that this replica reaches has them" in gone.out
        told = " ".join((await shell.braid("doctor")).out.split())
        assert "of registry/stream/logs: no archive that this replica reaches" in told
        archive.objects.update(kept)
        await restarted(shell)
        assert (await shell.braid("archive", "verify")).code == 0

    run_virtual(scenario())


def test_a_mesh_without_archives_has_nothing_to_verify() -> None:
    async def scenario() -> None:
        shell = await Shell().start("east")
        none = await shell.braid("archive", "verify")
        assert none.code == 4 and "no replica has an archive" in none.err

    run_virtual(scenario())
