"""Secrets that support code plants, and the search for them in what a run of tests kept and printed.

Every credential and every record of the tests that start real processes has a mark in it, so that nobody needs to know
them all. Private keys, signed tokens and the secrets of members have marks of their own: their form.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

CREDENTIAL_MARK: Final = "hush7Qx2m9"
RECORD_MARK: Final = "hush4Zr8k1"
ENVIRONMENT: Final = "PLANTED_SECRET"  # a variable of every process that a test starts

SECONDS_MAX: Final = 8.0  # for all files of one process of tests
FILE_BYTES_MAX: Final = 32 << 20  # of one file, half of them at each end
FINDINGS_MAX: Final = 20
_SHOWN_BYTES: Final = 60  # before a secret, to tell what printed it

# Files that are there to hold secrets; records lie in the data of Kafka and Spark, and in the index of dead letters.
_HOLDERS: Final = re.compile(r"(?i)(\.(pem|key|crt|toml|properties|jks|py|pyc)$)|password|secret|token|credential")
_DATA: Final = frozenset({"data", "wal", "snap", "table", "checkpoint", "__pycache__", "cas"})
_KAFKA_MARK: Final = "meta.properties"  # in a directory of a broker's records, whatever it is called
_LOGS: Final = (".log", ".json", ".jsonl", ".out", ".err", ".txt", ".html", ".md")


class _Form(NamedTuple):
    """How a kind of secret is known: letters that each one has, which are quickly looked for, and the whole."""

    letters: bytes
    whole: re.Pattern[bytes]


def _marked(mark: str) -> _Form:
    return _Form(mark.encode(), re.compile(mark.encode()))


_CREDENTIALS: Final[Mapping[str, _Form]] = {
    "a planted credential": _marked(CREDENTIAL_MARK),
    "a private key": _Form(b"PRIVATE KEY-----", re.compile(rb"PRIVATE KEY-----(?:\s|\\r|\\n)+[A-Za-z0-9+/]{24}")),
    "the body of a private key": _marked("MIGHAgEAMBMGByqGSM49AgEG"),  # of a P-256 key, as all of ours are
    "a signed token": _Form(b".eyJ", re.compile(rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16,}")),
    "a member's secret": _Form(b"resume", re.compile(rb"resume_?[sS]ecret[\"']?\s?[:=]\s?b?[\"'][^\"']")),
}
_RECORDS: Final = {"a planted record": _marked(RECORD_MARK)}


def credential(name: str) -> str:
    """A password or the like that nothing may show. The same name makes the same one."""
    return f"{CREDENTIAL_MARK}-{name}"


def planted_record(text: str) -> bytes:
    """A key or a value of a record that no log may show."""
    return f"{RECORD_MARK} {text}".encode()


class Exposed(NamedTuple):
    """A secret where it does not belong.

    Attributes:
        kind: What it is.
        where: A path, or what printed it.
        before: The text in front of it, without the secret.
    """

    kind: str
    where: str
    before: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.where}, after {self.before!r}"


class Search(NamedTuple):
    """The result of a search of files.

    Attributes:
        exposed: The secrets.
        files: How many files were read.
        unread: How many were left out when the time was over.
    """

    exposed: list[Exposed]
    files: int
    unread: int


def exposed_in(text: bytes, where: str, *, records: bool = True) -> list[Exposed]:
    """The kinds of secrets in a text, each once; `records` says whether contents of records are secret there, too."""
    found = []
    for kind, form in {**_CREDENTIALS, **(_RECORDS if records else {})}.items():
        match = form.whole.search(text) if form.letters in text else None
        if match is not None:
            before = text[max(0, match.start() - _SHOWN_BYTES) : match.start()]
            found.append(Exposed(kind, where, before.decode(errors="replace")))
    return found


def checked(done: subprocess.CompletedProcess[str], where: str) -> subprocess.CompletedProcess[str]:
    """A command that ended, whose output no run keeps. It may print records: some commands are there for that.

    Raises:
        AssertionError: it printed a credential.
    """
    found = exposed_in(f"{done.stdout}\n{done.stderr}".encode(), where, records=False)
    assert not found, "\n".join(map(str, found))
    return done


def exposed_below(directory: Path, seconds: float = SECONDS_MAX) -> Search:
    """The secrets in all files below a directory that are not there to hold them."""
    until, found, files = time.monotonic() + seconds, list[Exposed](), 0
    waiting = _kept(directory)
    for path in waiting:
        if time.monotonic() > until:
            return Search(found, files, 1 + sum(1 for _ in waiting))
        files += 1
        found += _exposed_at(path, str(path.relative_to(directory)))
        if len(found) >= FINDINGS_MAX:
            break
    return Search(found, files, 0)


def _kept(directory: Path) -> Iterator[Path]:
    """Files to look at. Directories are called as tests are, so that only those of data and CAs are left out."""
    for place, inner, names in os.walk(directory):
        if _KAFKA_MARK in names:
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if name not in _DATA)
        found = (Path(place) / name for name in sorted(names) if not _HOLDERS.search(name))
        yield from (path for path in found if path.is_file() and not path.is_symlink())


def _exposed_at(path: Path, where: str) -> list[Exposed]:
    is_log = path.suffix in _LOGS or path.name.startswith(("hs_err", "core"))
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= FILE_BYTES_MAX:
                return exposed_in(file.read(), where, records=is_log)
            head = file.read(FILE_BYTES_MAX // 2)
            file.seek(size - FILE_BYTES_MAX // 2)
            return exposed_in(head + file.read(FILE_BYTES_MAX // 2), where, records=is_log)
    except OSError:  # it went meanwhile, or belongs to somebody else
        return []
