"""`completion`: scripts for three shells that complete verbs, types, flags, and names from the mesh."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from braid.cli.core.kinds import KINDS
from braid.cli.errors import nearest
from braid.kernel.errors import Invalid

_COMPLETION: Final = """Print a script that completes commands in your shell.

\b
  source <(braid completion bash)          now; in ~/.bashrc for always
  source <(braid completion zsh)           in ~/.zshrc, after compinit
  braid completion fish > ~/.config/fish/completions/braid.fish
"""
_TYPES: Final = tuple(kind.plural for kind in KINDS if kind.built)
ROLES: Final = ("viewer", "producer", "consumer", "operator", "stream-owner", "admin")
_NAMES: Final = "@"  # names of the type typed before
# What may stand after a verb, word by word: literal words, names of the type typed before, or names of a type.
_WORDS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "get": (_TYPES, (_NAMES,)),
    "describe": (
        ("stream", "cluster", "group", "channel", "member", "lease", "deadletter", "replay", "tenant", "alert"),
        (_NAMES,),
    ),
    "create": (("stream", "cluster"),),
    "delete": (("stream", "cluster", "group", "tenant"), (_NAMES,)),
    "produce": (("@streams",),),
    "consume": (("@streams",),),
    "move": (("stream",), (_NAMES,)),
    "cordon": (("cluster",), (_NAMES,)),
    "uncordon": (("cluster",), (_NAMES,)),
    "decommission": (("cluster",), (_NAMES,)),
    "why": (("lease",), (_NAMES,)),
    "preview": (("group", "clusters"), (_NAMES,)),
    "drain": (("member",), (_NAMES,)),
    "undrain": (("member",), (_NAMES,)),
    "pin": (("lease",), (_NAMES,)),
    "unpin": (("lease",), (_NAMES,)),
    "ban": (("member",), (_NAMES,)),
    "unban": (("member",), (_NAMES,)),
    "freeze": (("group",), (_NAMES,)),
    "unfreeze": (("group",), (_NAMES,)),
    "set": (("capacity", "zones", "hosts", "fencing", "policy", "shadow", "health"),),
    "store": (("backup", "restore"),),
    "silence": (("@alerts",),),
    "grant": (ROLES,),
    "revoke": (ROLES,),
    "can-i": (("view", "produce", "consume", "operate", "change", "grant"), ("stream", "group", "cluster", "mesh")),
    "dlq": (("replay", "pause", "resume", "cancel"), ("@replays",)),
    "reset": (("group",), ("@groups",)),
    "dev": (("kill", "stop", "start", "pause", "resume", "status", "down"),),
    "completion": (("bash", "zsh", "fish"),),
}
_BASH: Final = """# completes `braid`; made by `braid completion {shell}`
_braid_names() {{
    command braid get "$1" -o name 2>/dev/null | sed 's,^[^/]*/,,'
}}
_braid() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" words="" place=0 index type=""
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "{verbs}" -- "$current"))
        return
    fi
    for ((index = 2; index < COMP_CWORD; index++)); do
        if [[ "${{COMP_WORDS[index]}}" != -* ]]; then
            [[ $place -eq 0 ]] && type="${{COMP_WORDS[index]}}"
            place=$((place + 1))
        fi
    done
    if [[ "$current" == -* ]]; then
        case "$verb" in
{flags}
        esac
    else
        case "$verb:$place" in
{words}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _braid braid
"""
_ZSH_FIRST: Final = "autoload -Uz +X bashcompinit && bashcompinit\n"


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("completion", help=_COMPLETION)(_completion)


def _completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", show_default=False)]) -> None:
    from braid.cli.app import VERBS

    makers = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    if shell not in makers:
        remedy = f"did you mean {nearest(shell, makers) or 'bash'}?"
        raise Invalid(f"there is no completion for {shell!r}", field="SHELL", remedy=remedy)
    summaries = {name: verb.summary for name, verb in VERBS.items()}
    sys.stdout.write(makers[shell](summaries, flags_of(list(VERBS))))


def flags_of(verbs: Sequence[str]) -> dict[str, list[str]]:
    """All flags of each verb, including its sub-commands', read from the commands themselves."""
    from braid.cli.app import application

    found: dict[str, list[str]] = {}
    waiting: list[tuple[str, object]] = []
    group = typer.main.get_command(application(verbs))
    waiting += getattr(group, "commands", {}).items()
    while waiting:
        verb, command = waiting.pop()
        names = [name for each in getattr(command, "params", []) for name in each.opts if name.startswith("--")]
        found.setdefault(verb, []).extend(names)
        waiting += [(verb, each) for each in getattr(command, "commands", {}).values()]
    return {verb: sorted({*names, "--help"}) for verb, names in found.items()}


def bash_script(summaries: Mapping[str, str], flags: Mapping[str, Sequence[str]]) -> str:
    """The completion script for bash."""
    return _bash_like("bash", summaries, flags)


def zsh_script(summaries: Mapping[str, str], flags: Mapping[str, Sequence[str]]) -> str:
    """The completion script for zsh, through its emulation of bash's completion."""
    return _ZSH_FIRST + _bash_like("zsh", summaries, flags)


def fish_script(summaries: Mapping[str, str], flags: Mapping[str, Sequence[str]]) -> str:
    """The completion script for fish."""
    lines = ["# completes `braid`; made by `braid completion fish`", "complete -c braid -f"]
    for verb, summary in summaries.items():
        text = summary.replace("'", "\\'")
        lines.append(f"complete -c braid -n __fish_use_subcommand -a {verb} -d '{text}'")
    for verb, places in _WORDS.items():
        for place, words in enumerate(places):
            count = f"test (count (commandline -opc)) -eq {place + 2}"
            condition = f"'__fish_seen_subcommand_from {verb}; and {count}'"
            lines.append(f"complete -c braid -n {condition} -a '{_fish_words(words)}'")
    for verb, names in flags.items():
        for name in names:
            lines.append(f"complete -c braid -n '__fish_seen_subcommand_from {verb}' -l {name.removeprefix('--')}")
    return "\n".join(lines) + "\n"


def _bash_like(shell: str, summaries: Mapping[str, str], flags: Mapping[str, Sequence[str]]) -> str:
    flag_cases = [f'            {verb}) words="{" ".join(names)}" ;;' for verb, names in sorted(flags.items())]
    word_cases = [
        f'            {verb}:{place}) words="{_bash_words(words)}" ;;'
        for verb, places in _WORDS.items()
        for place, words in enumerate(places)
    ]
    return _BASH.format(
        shell=shell, verbs=" ".join(summaries), flags="\n".join(flag_cases), words="\n".join(word_cases)
    )


def _bash_words(words: Sequence[str]) -> str:
    return " ".join(_bash_word(word) for word in words)


def _bash_word(word: str) -> str:
    if word == _NAMES:
        return '$(_braid_names "$type")'
    return f"$(_braid_names {word[1:]})" if word.startswith(_NAMES) else word


def _fish_words(words: Sequence[str]) -> str:
    return " ".join(_fish_word(word) for word in words)


def _fish_word(word: str) -> str:
    listing = '(braid get {} -o name 2>/dev/null | string replace -r "^[^/]*/" "")'
    if word == _NAMES:
        return listing.format("(commandline -opc)[3]")
    return listing.format(word[1:]) if word.startswith(_NAMES) else word
