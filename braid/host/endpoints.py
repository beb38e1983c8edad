"""Which mesh to talk to: what was named, the environment, a named context, or the `braid dev` of this directory.

The command line and `braid.connect` resolve an endpoint here, so that both find the same one. Reads files, opens no
connection.
"""

import difflib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from braid.host.tls.paths import CA_VARIABLE, Tls, tls_of_environment, tls_of_files
from braid.host.tokens import Token, token_of_environment
from braid.kernel.errors import Invalid, Unavailable

READY_FILE: Final = Path(".braid", "ready.json")
_EXAMPLE: Final = "for example 127.0.0.1:7401"
_ANSWERS: Final = "no connection (the "  # how `braid.rpc` says what a server or its certificate is not


class Choice(NamedTuple):
    """A choice of mesh: at most one of the first two. An `endpoint` of None was not given; an empty one is refused."""

    endpoint: str | None = None
    context: str = ""
    tls: Tls | None = None
    token: Token | None = None


class Endpoint(NamedTuple):
    """A mesh to talk to.

    Attributes:
        addresses: Of replicas, `host:port`.
        origin: Where the addresses come from.
        note: Shown when nobody asked for this mesh.
        tls: The files of mutual TLS; None for plaintext, or where a token is shown.
        token: The token that is shown in place of a certificate; None for none.
    """

    addresses: tuple[str, ...]
    origin: str
    note: str = ""
    tls: Tls | None = None
    token: Token | None = None


def resolve(choice: Choice, environment: Mapping[str, str], directory: Path, *, flags: bool = False) -> Endpoint:
    """Resolves an endpoint: what was named, BRAID_ENDPOINT, the contexts file, then a running `braid dev` nearby.

    The proof of who this process is comes from the same places, in this order: what was named, a token or the files of
    mutual TLS in the environment (BRAID_TOKEN_FILE, BRAID_TLS_CERTIFICATE), what stands beside the address. An address
    that was named is looked up there, too: Spark jobs are given one that was found before. Where both a token and files
    are found, the token counts, and of the files only the authorities.

    Args:
        choice: What was named.
        environment: The process's environment.
        directory: Where the process runs.
        flags: Whether errors name the command line's flags, not the arguments of `braid.connect`.

    Raises:
        Invalid: nothing names a mesh, or what names it is out of form.
    """
    found = _resolve_address(choice, environment, directory, flags=flags)
    if choice.token is not None:
        return found._replace(tls=None, token=_trusting(choice.token, choice.tls, environment, found))
    if choice.tls is not None:
        return found._replace(tls=choice.tls, token=None)
    if (token := token_of_environment(environment)) is not None:
        return found._replace(tls=None, token=token)
    if (tls := tls_of_environment(environment)) is not None:
        return found._replace(tls=tls, token=None)
    if found.tls is not None or found.token is not None:
        return found
    known = _known(found.addresses, environment, directory)
    return found if known is None else found._replace(tls=known.tls, token=known.token)


def _trusting(token: Token, tls: Tls | None, environment: Mapping[str, str], found: Endpoint) -> Token:
    """A token that was named, with whom its connection trusts, where that is named elsewhere."""
    if token.ca is not None:
        return token
    beside = found.token.ca if found.token is not None else found.tls.ca if found.tls is not None else None
    named = environment.get(CA_VARIABLE, "")
    ca = tls.ca if tls is not None else Path(named).expanduser() if named else beside
    return replace(token, ca=ca)


def _known(addresses: tuple[str, ...], environment: Mapping[str, str], directory: Path) -> Endpoint | None:
    """Finds files beside one of these addresses, in the context in use or the mesh nearby; None where nothing does."""
    with suppress(Invalid):  # what was named needs no contexts file
        context = _from_contexts(contexts_path(environment), environment.get("BRAID_CONTEXT", ""), "BRAID_CONTEXT")
        if context is not None and (context.tls or context.token) and not set(addresses).isdisjoint(context.addresses):
            return context
    with suppress(Invalid):  # nor a ready file
        nearby = _from_ready_file(directory / READY_FILE, "endpoint")
        if not set(addresses).isdisjoint(nearby.addresses):
            return nearby
    return None


def _resolve_address(choice: Choice, environment: Mapping[str, str], directory: Path, *, flags: bool) -> Endpoint:
    dashes = "--" if flags else ""
    if choice.endpoint is not None:
        return Endpoint(_addresses(choice.endpoint, f"{dashes}endpoint"), "--endpoint" if flags else "connect()")
    named = choice.context or environment.get("BRAID_CONTEXT", "")
    if not named and environment.get("BRAID_ENDPOINT"):
        return Endpoint(_addresses(environment["BRAID_ENDPOINT"], "BRAID_ENDPOINT"), "BRAID_ENDPOINT")
    path = contexts_path(environment)
    if named or path.exists():
        field = f"{dashes}context" if choice.context else "BRAID_CONTEXT" if named else f"current of {path}"
        found = _from_contexts(path, named, field)
        if found is not None:
            return found
    if (ready := directory / READY_FILE).exists():
        return _from_ready_file(ready, f"{dashes}endpoint")
    give = "give --endpoint HOST:PORT" if flags else 'give endpoint "HOST:PORT"'
    raise Invalid(
        "no mesh is named",
        field=f"{dashes}endpoint",
        remedy=f"{give} or set BRAID_ENDPOINT ({_EXAMPLE}), or start one here: braid dev --detach",
    )


def resolve_here(endpoint: str | None = None, tls: Tls | None = None, token: Token | None = None) -> Endpoint:
    """Resolves an endpoint with this process's environment and working directory. Raises `Invalid` as `resolve`."""
    return resolve(Choice(endpoint, tls=tls, token=token), os.environ, Path.cwd())


def find_endpoint() -> str:
    """The endpoint that `braid.connect()` uses when none is given, as text: for whatever wants one, such as Spark.

    Found as the command line finds it: BRAID_ENDPOINT, the context BRAID_CONTEXT or the current one of the contexts
    file, then the mesh that `braid dev` runs in the working directory.

    Raises:
        Invalid: nothing names a mesh, or what names it is out of form.
    """
    return ",".join(resolve_here().addresses)


def unreachable(error: Unavailable, endpoint: Endpoint) -> Unavailable:
    """The error of a mesh that does not answer, with where its endpoint came from and what to try."""
    remedy = "check the address and that the mesh runs"
    if _ANSWERS in error.message:
        remedy = "something answers there: check BRAID_TLS_CERTIFICATE, BRAID_TLS_KEY and BRAID_TLS_CA"
    elif endpoint.note:
        remedy = "that mesh has ended: start it again with `braid dev --detach`, or name another endpoint"
    elif len(endpoint.addresses) == 1:
        remedy += "; an endpoint may list several replicas (HOST:PORT,HOST:PORT), and one that answers is enough"
    return Unavailable(f"{error.message}; the endpoint is from {endpoint.origin}", remedy=remedy)


def contexts_path(environment: Mapping[str, str]) -> Path:
    """The file of named contexts: BRAID_CONTEXTS, else `braid/contexts.yaml` in the user's configuration."""
    if environment.get("BRAID_CONTEXTS"):
        return Path(environment["BRAID_CONTEXTS"])
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "braid" / "contexts.yaml"


def _from_contexts(path: Path, named: str, field: str) -> Endpoint | None:
    contexts, current = _read_contexts(path)
    name = named or current
    if not name:
        return None
    if name not in contexts:
        close = next(iter(difflib.get_close_matches(name.lower(), contexts, n=1)), "")
        known = f"did you mean {close}?" if close else f"{path} has {', '.join(contexts) or 'none'}"
        raise Invalid(f"there is no context {name!r}", field=field, remedy=known)
    origin = f"context {name} of {path}"
    endpoint, tls, token_file = contexts[name]
    found = Endpoint(_addresses(endpoint, origin), origin)
    if token_file is not None:
        token = Token(path.parent / Path(str(token_file)).expanduser(), ca=_ca(tls, path.parent))
        return found._replace(token=token)
    return found._replace(tls=_tls(tls, f"contexts.{name}.tls", path.parent))


def _ca(entry: object, directory: Path) -> Path | None:
    """The authorities that a connection with a token trusts: `ca` of `tls`."""
    ca = entry.get("ca") if isinstance(entry, dict) else None
    return None if not ca else directory / Path(str(ca)).expanduser()


def _read_contexts(path: Path) -> tuple[dict[str, tuple[str, object, object]], str]:
    """Endpoint and, as they stand there, `tls` and `token_file` by context; and the current one's name."""
    import yaml

    if not path.exists():
        return {}, ""
    remedy = "write  current: home  and  contexts: {home: {endpoint: 127.0.0.1:7401}}"
    try:
        document = yaml.safe_load(path.read_text()) or {}
        contexts = {
            str(name): (str(each["endpoint"]), each.get("tls"), each.get("token_file"))
            for name, each in document.get("contexts", {}).items()
        }
        return contexts, str(document.get("current", ""))
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise Invalid(f"{path} is no contexts file: {error}", remedy=remedy) from error


def _from_ready_file(path: Path, field: str) -> Endpoint:
    """The endpoint of a local mesh, then its other replicas: any of them will do while the first is down."""
    try:
        document = json.loads(path.read_text())
        endpoint, tls = str(document["endpoint"]), document.get("tls")
        others = [str(each["address"]) for each in document.get("services", {}).values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = f"restart `braid dev`, or give {field}"
        raise Invalid(f"{READY_FILE} cannot be understood: {error}", remedy=remedy) from error
    addresses = _addresses(",".join(dict.fromkeys([endpoint, *others])), str(READY_FILE))
    note = f"using the mesh of ./.braid at {endpoint}"
    return Endpoint(addresses, str(READY_FILE), note, _tls(tls, f"tls of {READY_FILE}", path.parent))


def _tls(entry: object, field: str, directory: Path) -> Tls | None:
    """`{ca: …, certificate: …, key: …}` as files; paths that are not absolute are those of the file it stands in."""
    if entry is None:
        return None
    keys = ("certificate", "key", "ca")
    if not isinstance(entry, dict) or (strange := sorted(map(str, entry.keys() - set(keys)))):
        what = f"has no {strange[0]!r}" if isinstance(entry, dict) else "is no mapping"
        raise Invalid(what, field=field, remedy="write  tls: {certificate: PATH, key: PATH, ca: PATH}")
    paths = [str(directory / Path(str(entry[key])).expanduser()) if entry.get(key) else "" for key in keys]
    names = (f"{field}.certificate", f"{field}.key", f"{field}.ca")
    return tls_of_files(*paths, names=names)


def _addresses(text: str, origin: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for each in found or ("",):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise Invalid(f"{each!r} is not host:port", field=origin, remedy=_EXAMPLE)
    return found
