"""The control socket answers one question at a time, and errors keep their place in the tree."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.kernel.errors import BraidError, Invalid, NotFound, Refused, Unavailable
from devmesh.control import Answer, ControlServer, ask, error_document, error_from


async def handle(verb: str, name: str) -> Answer:
    if verb == "refuse":
        raise Refused("not now", remedy="later")
    if verb == "miss":
        raise NotFound(f"no {name}")
    return {"said": f"{verb} {name}"}


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    """A socket that is served; an old one lay there before."""
    path = tmp_path / "control"
    path.touch()
    server = ControlServer(path, handle)
    await server.open()
    yield path
    server.close()
    assert not path.exists()


async def test_a_verb_is_answered(path: Path) -> None:
    assert await ask(path, "kill", "east") == {"said": "kill east"}


async def test_errors_arrive_as_they_were(path: Path) -> None:
    with pytest.raises(Refused, match="not now") as refused:
        await ask(path, "refuse")
    assert refused.value.remedy == "later"
    with pytest.raises(NotFound, match="no east"):
        await ask(path, "miss", "east")


def test_others_than_the_owner_are_kept_out(path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[]\n", b"{}\n"])
async def test_nonsense_is_answered_as_such(path: Path, line: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(line)
    answer = json.loads(await reader.readline())
    writer.close()
    assert (answer["ok"], answer["reason"]) == (False, "INVALID")


async def test_nobody_listening_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"no mesh answers at {tmp_path}"):
        await ask(tmp_path / "control", "status")


async def test_an_end_before_the_answer_is_said(tmp_path: Path) -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_unix_server(leave, tmp_path / "control")
    with pytest.raises(Unavailable, match="ended before it answered `down`"):
        await ask(tmp_path / "control", "down")
    server.close()


def test_an_unknown_reason_is_still_an_error() -> None:
    document = {**error_document(Invalid("x", field="f")), "reason": "NOVEL"}
    error = error_from(document)
    assert isinstance(error, BraidError)
    assert (error.message, error.field) == ("x", "f")
