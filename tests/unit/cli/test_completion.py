"""Completion scripts: bash's is run, the others are read."""

import subprocess

import pytest

from braid.cli import app
from braid.cli.completion import bash_script, fish_script, flags_of, zsh_script

SUMMARIES = {name: verb.summary for name, verb in app.VERBS.items()}


def completed(*words: str) -> list[str]:
    """The completions that bash would offer for the last word."""
    script = bash_script(SUMMARIES, flags_of(list(app.VERBS)))
    fake = 'braid() { [[ "$*" == "get streams -o name" ]] && printf "stream/logs\\nstream/metrics\\n"; }\n'
    fake += 'command() { "$@"; }\n'
    typed = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _braid; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{fake}{script}{asked}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_verbs_types_names_and_flags() -> None:
    assert completed("braid", "de") == ["dev", "describe", "delete", "decommission"]
    assert completed("braid", "get", "ch") == ["channels"]
    assert completed("braid", "get", "streams", "") == ["logs", "metrics"]
    assert completed("braid", "produce", "m") == ["metrics"]
    assert completed("braid", "consume", "logs", "--gr") == ["--group"]
    assert completed("braid", "create", "stream", "x", "--repl") == ["--replication-factor"]
    assert completed("braid", "dev", "k") == ["kill"]
    assert completed("braid", "completion", "z") == ["zsh"]


def test_every_verb_has_flags() -> None:
    flags = flags_of(list(app.VERBS))
    assert flags.keys() == app.VERBS.keys()
    assert "--dry-run" in flags["apply"]


def test_zsh_and_fish() -> None:
    flags = flags_of(["get"])
    assert zsh_script(SUMMARIES, flags).startswith("autoload -Uz +X bashcompinit")
    fish = fish_script(SUMMARIES, flags)
    assert "complete -c braid -n __fish_use_subcommand -a doctor" in fish
    assert "complete -c braid -n '__fish_seen_subcommand_from get' -l watch" in fish


def test_the_verb_prints_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["completion", "bash"]) == 0
    assert "complete -F _braid braid" in capsys.readouterr().out
    assert app.run(["completion", "bsh"]) == 2
    assert "did you mean bash?" in capsys.readouterr().err
