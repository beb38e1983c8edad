"""Which mesh a command talks to: a flag, the environment, a named context, or the `braid dev` of this directory.

Reads files, opens no connection.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from braid.cli.errors import nearest
from braid.kernel.errors import Invalid

READY_FILE: Final = Path(".braid", "ready.json")
_EXAMPLE: Final = "for example 127.0.0.1:7401"


class Choice(NamedTuple):
    """What was typed: at most one of the two."""

    endpoint: str = ""
    context: str = ""


class Endpoint(NamedTuple):
    """A mesh to talk to. `origin` says where the address comes from; `note` is shown when nobody asked for it."""

    addresses: tuple[str, ...]
    origin: str
    note: str = ""


def find_endpoint(choice: Choice, environment: Mapping[str, str], directory: Path) -> Endpoint:
    """Resolves an endpoint: what was typed, BRAID_ENDPOINT, the contexts file, then a running `braid dev` nearby.

    Args:
        choice: What was typed.
        environment: The process's environment.
        directory: Where the command runs.

    Raises:
        Invalid: nothing names a mesh, or what names it is out of form.
    """
    if choice.endpoint:
        return Endpoint(_addresses(choice.endpoint, "--endpoint"), "--endpoint")
    named = choice.context or environment.get("BRAID_CONTEXT", "")
    if not named and environment.get("BRAID_ENDPOINT"):
        return Endpoint(_addresses(environment["BRAID_ENDPOINT"], "BRAID_ENDPOINT"), "BRAID_ENDPOINT")
    path = contexts_path(environment)
    if named or path.exists():
        found = _from_contexts(path, named)
        if found is not None:
            return found
    if (ready := directory / READY_FILE).exists():
        return _from_ready_file(ready)
    raise Invalid(
        "no mesh is named",
        field="--endpoint",
        remedy=f"give --endpoint HOST:PORT or set BRAID_ENDPOINT ({_EXAMPLE}), or start one here: braid dev --detach",
    )


def contexts_path(environment: Mapping[str, str]) -> Path:
    """The file of named contexts: BRAID_CONTEXTS, else `braid/contexts.yaml` in the user's configuration."""
    if environment.get("BRAID_CONTEXTS"):
        return Path(environment["BRAID_CONTEXTS"])
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "braid" / "contexts.yaml"


def _from_contexts(path: Path, named: str) -> Endpoint | None:
    contexts, current = _read_contexts(path)
    name = named or current
    if not name:
        return None
    if name not in contexts:
        close = nearest(name, contexts)
        known = f"did you mean {close}?" if close else f"{path} has {', '.join(contexts) or 'none'}"
        raise Invalid(f"there is no context {name!r}", field="--context", remedy=known)
    origin = f"context {name} of {path}"
    return Endpoint(_addresses(contexts[name], origin), origin)


def _read_contexts(path: Path) -> tuple[dict[str, str], str]:
    """Endpoints by context, and the current one's name."""
    import yaml

    if not path.exists():
        return {}, ""
    remedy = "write  current: home  and  contexts: {home: {endpoint: 127.0.0.1:7401}}"
    try:
        document = yaml.safe_load(path.read_text()) or {}
        contexts = {str(name): str(each["endpoint"]) for name, each in document.get("contexts", {}).items()}
        return contexts, str(document.get("current", ""))
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise Invalid(f"{path} is no contexts file: {error}", remedy=remedy) from error


def _from_ready_file(path: Path) -> Endpoint:
    try:
        endpoint = str(json.loads(path.read_text())["endpoint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "restart `braid dev`, or give --endpoint"
        raise Invalid(f"{READY_FILE} cannot be understood: {error}", remedy=remedy) from error
    return Endpoint(_addresses(endpoint, str(READY_FILE)), str(READY_FILE), f"using the mesh of ./.braid at {endpoint}")


def _addresses(text: str, origin: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for each in found or ("",):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise Invalid(f"{each!r} is not host:port", field=origin, remedy=_EXAMPLE)
    return found
