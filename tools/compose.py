"""compose.yaml and compose.insecure.yaml, from the table that `braid dev` runs: `python -m tools.compose write|check`.

`tools.compose_services` decides what runs. This module turns it into text, with comments for people.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.compose_services import Value, observability_files, plain_services, services, volumes

ROOT: Final = Path(__file__).resolve().parent.parent

_WIDTH: Final = 116
_FLOW_MAX: Final = 90

_HEAD: Final = """\
# A whole mesh in containers: `make up`, `make down`. Written by `python -m tools.compose write` from the table that
# `braid dev` runs (devmesh/blueprint.py); change that, not this: `make check` compares.
#
# Applications on this machine use the endpoint 127.0.0.1:7401.
#
# Why everything shares the network of `net`. The registry gives out one address a cluster, and every service one of its
# own; the same address must work for the services, for Spark's containers and for applications on the host, on Linux
# and on Docker Desktop. Container names mean nothing on the host; `*.localhost` is not resolved by every system's
# libc, and clients that do know it turn it into loopback inside the containers too; host.docker.internal does not reach
# ports that are bound to 127.0.0.1 on Linux. In one namespace, as in a pod, 127.0.0.1:PORT is right for everybody:
# inside it is the process itself, outside it is the published port. So all ports differ, as they do under `braid dev`.
# An application in a container joins with `network_mode: container:braid-net-1`.
#
# What is not published (the store, the controllers) listens on 127.0.0.1 of the namespace and cannot be reached from
# outside. Services, the store and all callers show certificates, which `certs` makes before anything else
# starts; `make up` copies yours to .braid/compose. Rights are enforced, and yours is an admin's: who else comes needs
# a grant. Kafka's brokers speak plain text. There are no secrets in this file.
# Keys lie in the volume `tls`, which all containers of this mesh can read: it is for one machine. A mesh without
# certificates: `docker compose -f compose.yaml -f compose.insecure.yaml up --wait`, or `make up INSECURE=1`.
#
# Data is in named volumes: `docker compose down --volumes` forgets it. When Docker itself was restarted, run `make up`
# again: containers may have come up before the network they share.
"""
_INSECURE_HEAD: Final = """\
# A mesh without certificates, for scripts: `docker compose -f compose.yaml -f compose.insecure.yaml up --wait`, or
# `make up INSECURE=1`. Every program that reaches a port may do everything. Written by `python -m tools.compose write`.
"""
_COMMENTS: Final[Mapping[str, str]] = {
    "net": "Owns the network and the published ports, and does nothing else: it has no reason to end.",
    "disks": "Volumes of other images, which run as our user: made by our image, they belong to it.",
    "certs": "Makes a CA for the mesh, one for its store, and everybody's certificates; lists admins. Again: renews.",
    "etcd-0": "The store. Three members: one may be lost.",
    "east": "Kafka clusters of one node each, broker and controller in one process.",
    "registry-0": "The services. One replica of each leads, the others follow.",
    "init": "Tells the registry where the clusters are. Runs at each start, and does nothing where that is known.",
    "console": "The console. To sign in: `docker compose exec console braid open --dir /var/lib/braid`.",
    "collector": "`docker compose --profile observability up`: Prometheus on port 9090, Grafana on 3000, OTLP on 4317.",
    "stream": "`docker compose --profile spark up`: a stream, and a Spark job that writes its records into a table.",
}


def compose_text(version: str) -> str:
    """The text of the whole file.

    Args:
        version: Braid's version.
    """
    parts = [f"{_HEAD}\nname: braid\n\nservices:\n"]
    for name, service in services(version).items():
        if name in _COMMENTS:
            parts.append(f"  # {_COMMENTS[name]}\n")
        parts.append(_indented(_yaml({name: service})))
    return "".join((*parts, "volumes:\n", *(f"  {name}:\n" for name in volumes())))


def insecure_text() -> str:
    """The file that takes certificates away."""
    return (
        f"{_INSECURE_HEAD}\nservices:\n"
        + "".join(_indented(_yaml({name: service})) for name, service in plain_services().items()).rstrip("\n")
        + "\n"
    )


def version_of(pyproject: Path) -> str:
    """Braid's version."""
    return str(tomllib.loads(pyproject.read_text())["project"]["version"])


class _Dumper(yaml.SafeDumper):
    """Writes short values on one line, no aliases, no strings broken in two."""

    def ignore_aliases(self, data: object) -> bool:
        """Repeats equal values: people read a service's settings in one place."""
        return True

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """Writes a quoted string on one line."""
        super().write_double_quoted(text, split=False)


def _list(dumper: yaml.SafeDumper, data: Sequence[object]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    plain = data and not data[0].isdigit() and all(letter.isalnum() or letter in "-_./=@" for letter in data)
    style = None if plain and yaml.safe_load(data) == data else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


def _mapping(dumper: yaml.SafeDumper, data: Mapping[str, object]) -> yaml.Node:
    short = len(str(data)) < _FLOW_MAX and not any(isinstance(value, list | dict) for value in data.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=short)


_Dumper.add_representer(dict, _mapping)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(str, _text)


def _yaml(document: Mapping[str, Value]) -> str:
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=_WIDTH))


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in text.splitlines()) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the file, or compares it; 1 when it is not what the table says, 2 for an unknown verb."""
    wanted = {
        ROOT / "compose.yaml": compose_text(version_of(ROOT / "pyproject.toml")),
        ROOT / "compose.insecure.yaml": insecure_text(),
        **{ROOT / path: text for path, text in observability_files().items()},
    }
    match arguments:
        case ["write"]:
            for file, text in wanted.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        case ["check"]:
            for file, text in wanted.items():
                if not file.exists() or file.read_text() != text:
                    print(
                        f"{file.relative_to(ROOT)} is not what the table says; run: python -m tools.compose write",
                        file=sys.stderr,
                    )
                    return 1
        case _:
            print("usage: python -m tools.compose write|check", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
