"""Tracked files are tidy, and each rule of tidiness turns red on a mutant."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.messages import (
    commented_files_hold_no_riddles,
    messages_have_short_sentences,
    messages_hold_no_riddles,
)
from tests.support.prose import (
    SENTENCE_WORDS_MAX,
    docstrings_have_short_sentences,
    docstrings_name_files_that_exist,
    first_sentences_say_what_things_are,
    names_of_tests_are_short,
    pages_have_short_sentences,
    pages_hold_no_riddles,
    sections_begin_with_a_subject,
)
from tests.support.tidy import (
    CASES_LINES_MAX,
    COMMAND_LINES_MAX,
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    PYTHON_RULES,
    TEXT_RULES,
    Rule,
    file_length,
    findings,
    function_length,
    has_docstring,
    is_written_python,
    names_say_something,
    no_any_in_public_signature,
    no_blanket_exemption,
    no_clock_where_a_port_is,
    no_machine_path,
    no_mark_of_a_merge,
    no_registry_host,
    no_relative_import,
    no_skipped_test,
    starts_modules_that_exist,
    tracked_files,
)

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = 6  # of the files: one test of all would keep a single core busy at the end of a run

DOCSTRING: Final = '"""A module of the library."""\n'

# (rule, path, text): each must be found by the rule. Texts the rules would find here too are put together.
MUTANTS: Final[Sequence[tuple[Rule, str, str]]] = (
    (no_machine_path, "docs/a.md", "see /" + "root/notes"),
    (no_machine_path, "Makefile", "cd /" + "work/checkout"),
    (no_machine_path, "braid/a.py", "HERE = '/" + "home/me'"),
    (no_registry_host, "requirements/dev.txt", "--index-url https://" + "pypi" + ".org/simple"),
    (no_registry_host, "devmesh/a.py", "URL = 'https://repo1" + ".maven" + ".org'"),
    (no_mark_of_a_merge, "CHANGELOG.md", "- **A point**: more.\n" + ">" * 7 + " a/branch"),
    (no_registry_host, "go.env", "GOPROXY=proxy" + ".golang" + ".org"),
    (file_length, "braid/a.py", "x = 1\n" * (FILE_LINES_MAX + 1)),
    (file_length, "tests/support/a.py", "x = 1\n" * (FILE_LINES_MAX + 1)),
    (file_length, "tests/unit/test_a.py", "x = 1\n" * (CASES_LINES_MAX + 1)),
    (function_length, "braid/a.py", "def f() -> None:\n" + "    print()\n" * FUNCTION_LINES_MAX),
    (function_length, "braid/cli/dev.py", "def _dev() -> None:\n" + "    print()\n" * COMMAND_LINES_MAX),
    (function_length, "braid/cli/dev.py", "def _fault() -> None:\n" + "    print()\n" * FUNCTION_LINES_MAX),
    (function_length, "tests/a.py", "async def f() -> None:\n" + "    print()\n" * FUNCTION_LINES_MAX),
    (names_say_something, "braid/utils.py", ""),
    (names_say_something, "services/common/domain.py", ""),
    (names_say_something, "braid/a.py", "class LeaseManager: ..."),
    (names_say_something, "tests/a.py", "def helper_for_leases() -> None: ..."),
    (no_skipped_test, "tests/unit/test_a.py", "@pytest.mark.skip\ndef test_a() -> None: ..."),
    (no_skipped_test, "tests/unit/test_a.py", "@pytest.mark.xfail(strict=True)\ndef test_a() -> None: ..."),
    (no_skipped_test, "tests/unit/test_a.py", "kafka = pytest.importorskip('kafka')"),
    (no_skipped_test, "tests/unit/test_a.py", "from pytest import skip"),
    (no_relative_import, "braid/client/a.py", "from ..kernel import ids"),
    (no_relative_import, "braid/client/a.py", "from . import outbox"),
    (no_clock_where_a_port_is, "braid/kernel/a.py", "at = datetime.now(UTC)"),
    (no_clock_where_a_port_is, "services/registry/domain/streams.py", "at = datetime.datetime.utcnow()"),
    (no_any_in_public_signature, "braid/a.py", "def f(x: dict[str, Any]) -> None: ..."),
    (no_any_in_public_signature, "services/a.py", "async def f() -> typing.Any: ..."),
    (no_any_in_public_signature, "braid/a.py", "def f(**options: Any) -> None: ..."),
    (no_blanket_exemption, "braid/a.py", "import os  # no" + "qa"),
    (no_blanket_exemption, "braid/a.py", "x = f()  # type:" + " ignore"),
    (has_docstring, "braid/a.py", "x = 1"),
    (starts_modules_that_exist, "tests/a.py", "run([sys.executable, '-m', 'tests.support.gone', 'x'])"),
    (starts_modules_that_exist, "tests/a.py", "run(python, '-m', f'tests.support.{name}')"),
    (first_sentences_say_what_things_are, "braid/client/a.py", '"""One consumer. The text has more to say."""'),
    (first_sentences_say_what_things_are, "pipelines/a.py", 'class A:\n    """By lane."""'),
    (first_sentences_say_what_things_are, "braid/kernel/a.py", 'def f() -> None:\n    """Tells whoever asks."""'),
    (first_sentences_say_what_things_are, "tests/a.py", 'def f() -> None:\n    """As kill -9."""'),
    (first_sentences_say_what_things_are, "tests/a.py", 'class A:\n    """Those of a group that are gone."""'),
    (first_sentences_say_what_things_are, "tests/a.py", 'def f() -> None:\n    """What a replica answers."""'),
    (docstrings_have_short_sentences, "braid/stores/a.py", f'"""{"word " * SENTENCE_WORDS_MAX}word."""'),
    (
        docstrings_have_short_sentences,
        "tests/a.py",
        f'"""A test.\n\n- a point\n- It {"says more " * SENTENCE_WORDS_MAX}."""',
    ),
    (docstrings_name_files_that_exist, "braid/a.py", '"""Rules; numbers are in `gone_for_good.py`."""'),
    (names_of_tests_are_short, "tests/unit/test_a.py", f"async def test_{'a' * 56}() -> None: ..."),
    (pages_have_short_sentences, "docs/guides/a.md", f"# A\n\nShort.\nIt {'says more ' * SENTENCE_WORDS_MAX}."),
    (pages_have_short_sentences, "README.md", f"- a point\n- It {'says more ' * SENTENCE_WORDS_MAX}."),
    (pages_have_short_sentences, "CHANGELOG.md", f"- **A point**: {'says more ' * SENTENCE_WORDS_MAX}."),
    (pages_have_short_sentences, "braid/spark/README.md", f"It {'says more ' * SENTENCE_WORDS_MAX}."),
    (pages_hold_no_riddles, "CHANGELOG.md", "- **Audit**: it answers whoever asks."),
    (pages_hold_no_riddles, "docs/robustness.md", "The commit is believed as it stands."),
    (sections_begin_with_a_subject, "CHANGELOG.md", "- **Who comes back** shows a secret."),
    (messages_hold_no_riddles, "braid/a.py", 'raise Invalid("it answers whoever asks", remedy="wait")'),
    (messages_hold_no_riddles, "services/a.py", '_REMEDY: Final = f"somebody else holds {lease}"'),
    (messages_hold_no_riddles, "braid/cli/a.py", 'app.command("approve", help="Approve what somebody asked.")(_do)'),
    (messages_hold_no_riddles, "braid/cli/doctor/a.py", 'Finding(name, "health", f"{health}: no reason told")'),
    (messages_hold_no_riddles, "devmesh/a.py", 'raise Refused("a replica " f"of {service} " "serves those who ask")'),
    (messages_have_short_sentences, "braid/cli/a.py", f'_HELP = """It {"says more " * SENTENCE_WORDS_MAX}."""'),
    (commented_files_hold_no_riddles, "Makefile", "\t@echo 'whoever reaches it may do everything'"),
    (commented_files_hold_no_riddles, "compose.yaml", "services:  # and whoever calls them"),
    (sections_begin_with_a_subject, "docs/adr/0001-a.md", "# A\n\n## Decision\n\nOf two clocks one is taken.\n"),
)

# (rule, path, text): near misses no rule may find.
SOUND: Final[Sequence[tuple[Rule, str, str]]] = (
    (no_machine_path, "docs/a.md", "~/.cache, /usr/lib and the root/branch"),
    (file_length, "braid/a.py", "x = 1\n" * FILE_LINES_MAX),
    (file_length, "tests/unit/test_a.py", "x = 1\n" * CASES_LINES_MAX),
    (function_length, "braid/a.py", "def f() -> None:\n" + "    print()\n" * (FUNCTION_LINES_MAX - 1)),
    (function_length, "braid/cli/dev.py", "def _dev() -> None:\n" + "    print()\n" * (COMMAND_LINES_MAX - 1)),
    (names_say_something, "braid/a.py", "from contextlib import contextmanager\ndef commonality() -> None: ..."),
    (names_say_something, "tests/a.py", "def test_the_common_case() -> None: ..."),
    (no_skipped_test, "tests/a.py", "progress.skip(3)"),
    (no_skipped_test, "braid/a.py", "self.skip"),
    (no_clock_where_a_port_is, "services/a.py", "at = clock.now_ms()"),
    (no_clock_where_a_port_is, "devmesh/a.py", "at = datetime.now(UTC)"),
    (no_any_in_public_signature, "braid/a.py", "def _f(x: Any) -> None: ..."),
    (no_blanket_exemption, "braid/a.py", "import os  # noqa: F401"),
    (has_docstring, "braid/a/__init__.py", ""),
    (
        starts_modules_that_exist,
        "tests/a.py",
        "run(*('-m', 'bench'), '-m', 'tests.support.tidy', '-m', 'pytest', '-m', x)",
    ),
    (first_sentences_say_what_things_are, "braid/client/a.py", '"""The records of one consumer."""\ndef f(): "Lane."'),
    (first_sentences_say_what_things_are, "tests/a.py", '"""Asks one replica of a mesh. It may lead."""'),
    (docstrings_have_short_sentences, "tests/a.py", '"""A test.\n\nArgs:\n    a: ' + "word " * 99 + '"""'),
    (docstrings_name_files_that_exist, "braid/a.py", '"""Rules; see `support/prose.py` and `test_tidy.py`."""'),
    (names_of_tests_are_short, "tests/unit/test_a.py", f"def test_{'a' * 55}() -> None: ..."),
    (pages_have_short_sentences, "docs/guides/a.md", "It says this. " * SENTENCE_WORDS_MAX),
    (pages_have_short_sentences, "docs/guides/a.md", f"```\n{'a ' * 99}\n```\n| {'b ' * 99}|\n"),
    (pages_have_short_sentences, "docs/guides/a.md", f"1. A step:\n\n   ```\n   {'a ' * 99}\n   ```\n"),
    (pages_hold_no_riddles, "docs/guides/a.md", "```\nwhoever\n```\n| whoever |\n"),
    (
        messages_hold_no_riddles,
        "braid/a.py",
        'def f() -> None:\n    """Whoever asks is told."""\n    f(whoever, "told")',
    ),
    (messages_hold_no_riddles, "braid/a.py", 'Need("Metadata", "topics are not told apart by their ids")'),
    (messages_hold_no_riddles, "tests/a.py", 'assert told, "it answers whoever asks"'),
    (
        messages_have_short_sentences,
        "braid/cli/a.py",
        f'_HELP = """List.\n\n\\b\n  braid get x      {"says more " * SENTENCE_WORDS_MAX}\n"""',
    ),
    (commented_files_hold_no_riddles, "Makefile", "# Every program that reaches a port may do everything."),
    (sections_begin_with_a_subject, "CHANGELOG.md", "- **Offsets** are kept. They end."),
    (sections_begin_with_a_subject, "README.md", "# A\n\nThe demo:\n\n1. It kills a member.\n"),
)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_git_tracks_is_tidy(part: int) -> None:
    found = [
        finding
        for path in tracked_files(ROOT)[part::PARTS]
        if (text := readable(ROOT / path)) is not None
        for finding in findings(path, text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("rule", "path", "text"), MUTANTS)
def test_a_mutant_is_found(rule: Rule, path: str, text: str) -> None:
    assert len(list(rule(path, text))) == 1
    assert next(iter(rule(path, text))) in findings(path, text)


@pytest.mark.parametrize(("rule", "path", "text"), SOUND)
def test_a_near_miss_is_not_found(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, text)) == []


def test_every_rule_has_a_mutant() -> None:
    assert {rule for rule, _, _ in MUTANTS} == {*TEXT_RULES, *PYTHON_RULES}


def test_generated_code_is_held_to_the_rules_of_text_only() -> None:
    assert not is_written_python("braid/api/registry/v1/stream_pb2.py")
    assert not is_written_python("braid/stores/etcd_wire/etcd_pb2.py")
    assert findings("braid/api/registry/v1/stream_pb2.py", "x = 1\n" * 1000) == []
    assert findings("braid/kernel/ids.py", DOCSTRING + "x = 1\n") == []


def readable(path: Path) -> str | None:
    """A file's text; None for a binary one."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
