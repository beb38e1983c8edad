"""Snippets of pages: which run, and that a page which is not true turns red."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.snippets import KINDS, Snippet, first_difference, run_page, run_snippet, snippets, stretched

DOCS: Final = Path(__file__).parents[3] / "docs"
PAGE: Final = """# A page

```bash
echo one; echo "two 17 ms"
```

```text
one
two 9 ms
```

Words between.

```python
print(1)
```

So it is:

```text
a picture
```

```json
{}
```
"""


def test_blocks_that_run_and_what_they_print(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert snippets(page) == [
        Snippet("page.md:3", "bash", 'echo one; echo "two 17 ms"\n', "one\ntwo 9 ms\n"),
        Snippet("page.md:14", "python", "print(1)\n"),
    ]
    assert [run_snippet(each, tmp_path, 10.0) for each in snippets(page)] == ["one\ntwo 17 ms\n", "1\n"]


def test_only_waits_are_stretched() -> None:
    body = "braid consume orders --timeout 3 --max 9; asyncio.timeout(5); x.take(4); sleep 7"
    assert stretched(body, 1.5) == "braid consume orders --timeout 5 --max 9; asyncio.timeout(8); x.take(6); sleep 7"
    assert stretched(body, 1.0) == body


@pytest.mark.parametrize(
    "snippet",
    [
        Snippet("p:1", "bash", "false; echo one", "one"),
        Snippet("p:1", "bash", "false | cat", ""),
        Snippet("p:1", "bash", "echo $unset_name", ""),
        Snippet("p:1", "bash", "echo two", "one"),
        Snippet("p:1", "python", "raise SystemExit(3)", ""),
    ],
)
def test_a_page_that_is_not_true_turns_red(snippet: Snippet, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="p:1"):
        run_snippet(snippet, tmp_path, 10.0)


def test_a_page_tells_all_that_is_wrong(tmp_path: Path) -> None:
    page = [Snippet(f"p:{number}", "bash", f"echo {number}; test {number} != 2", "1") for number in (1, 2, 3)]
    with pytest.raises(AssertionError, match=r"(?s)^ended with 1: p:2.*never printed '1': p:3"):
        run_page(page, tmp_path, 10.0)
    run_page(page[:1], tmp_path, 10.0)


@pytest.mark.parametrize(
    ("shown", "printed", "different"),
    [
        ("NAME  STATE   AGE\nlogs  OK      3s", "NAME STATE AGE\nlogs OK 2h14m\n", ""),
        ("east on 127.0.0.1:19192", "east on 127.0.0.1:40001", ""),
        ("1 record acknowledged in 0.4 s: live on east 1", "1 record acknowledged in 11.9 s: live on east 1", ""),
        (
            "1 record acknowledged in 0.4 s: live on east 1",
            "1 record acknowledged in 0.4 s: live on west 1",
            "1 record",
        ),
        ("east is dead (process 11, SIGKILL)", "east is dead (process 4711, SIGKILL)", ""),
        ("east is DOWN: no answer; to west", "east is DOWN: refused; 1 of 1 hosts; to west", ""),
        ("east is DOWN: no answer; to west", "east is DOWN: refused; to north", "east is DOWN"),
        ("a\nc", "a\nb\nc", "c"),
        ("a", "a\nb", "b"),
        ("a\nb", "a", "b"),
        ("a\nb", "b\na", "a"),
        ("logs 3 OK", "logs 4 OK", "logs 3 OK"),
        ("for 4s (host update)", "for 71m (host update)", ""),
        ("replay/01M8HET9CK3G2MQ30Y0R4CG6NE done", "replay/01M8HET9CK3G2MQ30Y0R4CG6NF done", ""),
        ("replay/01M8HET9CK3G2MQ30Y0R4CG6NE done", "replay/ done", "replay/01M8"),
        ("append: 3 ms, 2 ms is usual", "append: 3.4 ms, 11 ms is usual", ""),
        ("2 leases would move", "no leases would move", ""),
        ("orders/live/4 (west)", "orders/live/5 (west)", ""),
        ("orders/live/1 (east)", "orders/live/2 (east)", "orders/live/1"),
    ],
)
def test_whole_output_differs_in_nothing_but_values_of_a_kind(shown: str, printed: str, different: str) -> None:
    found = first_difference(shown, printed)
    assert found.startswith(different) and bool(found) is bool(different)


def test_a_line_that_a_page_does_not_show_turns_it_red(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="never printed 'two': p:1"):
        run_page([Snippet("p:1", "bash", "echo one; echo two", "one")], tmp_path, 10.0)
    run_page([Snippet("p:1", "bash", "echo one; echo two", "")], tmp_path, 10.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_seen_on_a_page(kind: str) -> None:
    pages = [DOCS / "tutorial.md", *sorted((DOCS / "guides").glob("*.md"))]
    lines = [line for page in pages for each in snippets(page) for line in each.printed.splitlines()]
    assert any(KINDS[kind].search(line) for line in lines)


def test_a_read_only_block_is_repeated_until_it_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "braid"
    command.write_text('#!/bin/sh\necho again >> looks\nwc -l < looks | tr -d " "\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # a block finds commands beside the interpreter
    look = Snippet("p:1", "bash", "braid get channels logs\n", "3\n")
    assert run_snippet(look, tmp_path, 10.0) == "3\n"
    with pytest.raises(AssertionError, match="never printed '5'"):
        run_snippet(Snippet("p:1", "bash", "braid produce logs\n", "5\n"), tmp_path, 10.0)
