"""Snippets of pages: which run, and that a page which is not true turns red."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.snippets import Snippet, first_difference, first_missing, run_page, run_snippet, snippets, stretched

PAGE = """# A page

```bash
echo one; echo "two 17 ms"
```

```text
one
two … ms
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
        Snippet("page.md:3", "bash", 'echo one; echo "two 17 ms"\n', "one\ntwo … ms\n"),
        Snippet("page.md:14", "python", "print(1)\n"),
    ]
    assert [run_snippet(each, tmp_path, 10.0) for each in snippets(page)] == ["one\ntwo 17 ms\n", "1\n"]


def test_only_waits_are_stretched() -> None:
    body = "braid consume orders --timeout 3 --max 9; asyncio.timeout(5); x.take(4); sleep 7"
    assert stretched(body, 1.5) == "braid consume orders --timeout 5 --max 9; asyncio.timeout(8); x.take(6); sleep 7"
    assert stretched(body, 1.0) == body


@pytest.mark.parametrize(
    ("expected", "printed", "missing"),
    [
        ("a\nc", "a\nb\nc", ""),
        ("NAME STATE\nlogs … OK", "NAME     STATE\nlogs x y OK\n", ""),
        ("c\na", "a\nb\nc", "a"),
        ("a\na", "a", "a"),
        ("…took … s", "it took 3 m", "…took … s"),
        ("a.c", "abc", "a.c"),
    ],
)
def test_what_is_missing(expected: str, printed: str, missing: str) -> None:
    assert first_missing(expected, printed) == missing


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
    ],
)
def test_whole_output_differs_in_nothing_but_values_of_a_kind(shown: str, printed: str, different: str) -> None:
    found = first_difference(shown, printed)
    assert found.startswith(different) and bool(found) is bool(different)


def test_a_line_that_a_whole_page_does_not_show_turns_it_red(tmp_path: Path) -> None:
    page = [Snippet("p:1", "bash", "echo one; echo two", "one")]
    run_page(page, tmp_path, 10.0)
    with pytest.raises(AssertionError, match="never printed 'two': p:1"):
        run_page(page, tmp_path, 10.0, whole=True)
    run_page([Snippet("p:1", "bash", "echo one", "")], tmp_path, 10.0, whole=True)


def test_a_read_only_block_is_repeated_until_it_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "braid"
    command.write_text('#!/bin/sh\necho again >> looks\nwc -l < looks | tr -d " "\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # a block finds commands beside the interpreter
    look = Snippet("p:1", "bash", "braid get channels logs\n", "3\n")
    assert run_snippet(look, tmp_path, 10.0, whole=True) == "3\n"
    with pytest.raises(AssertionError, match="never printed '5'"):
        run_snippet(Snippet("p:1", "bash", "braid produce logs\n", "5\n"), tmp_path, 10.0, whole=True)
