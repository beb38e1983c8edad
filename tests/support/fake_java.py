"""A `java` that stands in for Kafka's tools and brokers: formats, serves, archives its classes at its end."""

import sys
from pathlib import Path
from typing import Final

from tests.support.fake_tools import write_tool

BANNER: Final = 'openjdk version "17.0.15" 2025-04-15'
CHECKPOINT: Final = b"features\x00of a new cluster"
ARCHIVE: Final = b"classes" * 1_000

_BODY: Final = """
import os, pathlib, signal, socket
said, calls, mode = {said!r}, {calls!r}, open({mode!r}).read()
words = sys.argv[1:]
if words == ["-version"]:
    print(said, file=sys.stderr)
    sys.exit(0)
main_class = words[words.index("-cp") + 2]
with open(calls, "a") as file:
    file.write(main_class + "\\n")
config = dict(line.split("=", 1) for line in open(words[-1]).read().splitlines())
if main_class == "kafka.tools.StorageTool":
    if mode == "no format":
        sys.exit("the disk is made of cheese")
    data = pathlib.Path(config["log.dirs"])
    data.mkdir()
    cluster = words[words.index("-t") + 1]
    (data / "bootstrap.checkpoint").write_bytes({checkpoint!r})
    (data / "meta.properties").write_text(
        f"#\\n#today\\nversion=1\\ncluster.id={{cluster}}\\nnode.id=1\\ndirectory.id=x\\n"
    )
    sys.exit(0)

def end(*_):
    archive = next((word.partition("=")[2] for word in words if "ArchiveClassesAtExit" in word), "")
    if mode == "hangs":
        pathlib.Path(archive).write_bytes({archive!r}[:10])
        signal.pause()
    if archive and mode != "no archive":
        pathlib.Path(archive).write_bytes({archive!r})
    os._exit(0)

signal.signal(signal.SIGTERM, end)
print("[warning][cds] archiving is not for this JVM", flush=True)
with socket.create_server(("127.0.0.1", int(config["listeners"].split(",")[0].rpartition(":")[2]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(bytes(11) + bytes([1]))
"""


def fake_java(directory: Path, said: str = BANNER, mode: str = "") -> Path:
    """Writes the program.

    Args:
        directory: Where; `calls(directory)` tells later which classes were run.
        said: Its answer to `-version`.
        mode: `no format`, `no archive` or `hangs` (while it archives): what goes wrong.
    """
    notes = {"calls": str(directory / "calls"), "mode": str(directory / "mode")}
    body = _BODY.format(said=said, checkpoint=CHECKPOINT, archive=ARCHIVE, **notes)
    tool = write_tool(directory, "java", body)
    tool.write_text(tool.read_text().replace(sys.executable, f"{sys.executable} -IS", 1))
    go_wrong(directory, mode)
    return tool


def go_wrong(directory: Path, mode: str) -> None:
    """Changes what goes wrong, but not the program."""
    (directory / "mode").write_text(mode)


def calls(directory: Path) -> list[str]:
    """The classes run, in order."""
    noted = directory / "calls"
    return noted.read_text().split() if noted.exists() else []
