"""Reads manifest files: strict YAML, errors with file, document and path. Only reads files."""

import re
import sys
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from braid.api.registry.v1.approval_pb2 import ApprovalPolicySpec
from braid.api.registry.v1.cluster_pb2 import ClusterSpec
from braid.api.registry.v1.grant_pb2 import GrantSpec
from braid.api.registry.v1.stream_pb2 import StreamSpec
from braid.api.registry.v1.tenant_pb2 import TenantSpec
from braid.cli.core.documents import Value, from_document, unknown_field
from braid.cli.core.limits import CLI_MANIFEST_BYTES_MAX
from braid.cli.core.output import API_VERSION
from braid.cli.errors import nearest
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name

_BOOL: Final = "tag:yaml.org,2002:bool"
_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_LIST_FIELDS: Final = ("apiVersion", "kind", "items")
_FIRST: Final = ("Cluster", "Tenant")
_METADATA: Final = ("name", "etag", "create_time_ms")


Spec = StreamSpec | ClusterSpec | GrantSpec | TenantSpec | ApprovalPolicySpec


class Declared(NamedTuple):
    """One manifest and its place. `where` names its file and document."""

    kind: str
    name: str
    spec: Spec
    where: str


def read_files(paths: Sequence[Path]) -> list[Declared]:
    """Reads manifests, clusters and tenants before the streams that may need them; `-` is stdin.

    Raises:
        Invalid: a file cannot be read, or is malformed; nothing was changed then.
    """
    declared = [each for path in paths for each in read_text(_read(path), "stdin" if str(path) == "-" else str(path))]
    if not declared:
        raise Invalid("there is no manifest in it", field="--filename", remedy="see `braid apply --help` for one")
    seen: set[tuple[str, str]] = set()
    for each in declared:
        if (each.kind, each.name) in seen:
            raise Invalid(f"{each.kind} {each.name} is declared twice", field=each.where)
        seen.add((each.kind, each.name))
    return sorted(declared, key=lambda each: each.kind not in _FIRST)


def read_text(text: str, source: str) -> list[Declared]:
    """Reads the manifests in one file's text. Raises `Invalid`."""
    try:
        documents = list(yaml.load_all(text, _Loader))  # a safe loader, see below
    except yaml.YAMLError as error:
        raise Invalid(f"this is not YAML: {' '.join(str(error).split())}", field=source) from error
    except RecursionError as error:
        raise Invalid("it is nested too deeply", field=source) from error
    many = len(documents) > 1
    return [
        _declared(manifest, where)
        for number, document in enumerate(documents, 1)
        for manifest, where in _listed(document, f"{source}#{number}" if many else source)
        if manifest is not None
    ]


def _listed(document: Value, where: str) -> list[tuple[Value, str]]:
    """The manifests in a document, with their places: several in a list, as `braid get streams -o yaml` prints it."""
    if not isinstance(document, dict) or document.get("kind") != "List":
        return [(document, where)]
    items = document.get("items")
    if not isinstance(items, list):
        raise Invalid("a list has items", field=f"{where}: items", remedy="write the manifests below it")
    for name in document:
        if name not in _LIST_FIELDS:
            error = unknown_field(name, "", _LIST_FIELDS)
            raise Invalid(error.message, field=f"{where}: {error.field}", remedy=error.remedy)
    return [(item, f"{where}: items[{number}]") for number, item in enumerate(items)]


def _declared(document: Value, where: str) -> Declared:
    try:
        return _read_manifest(document, where)
    except Invalid as error:
        raise Invalid(error.message, field=f"{where}: {error.field}".rstrip(": "), remedy=error.remedy) from error


def _read_manifest(document: Value, where: str) -> Declared:
    if not isinstance(document, dict):
        raise Invalid("this is no manifest", remedy="begin with apiVersion: braid/v1")
    for name in document:
        if name not in _FIELDS:
            raise unknown_field(str(name), "", _FIELDS)
    if document.get("apiVersion") != API_VERSION:
        message = f"{document.get('apiVersion')!r} is not known"
        raise Invalid(message, field="apiVersion", remedy=f"write {API_VERSION}")
    kind = document.get("kind")
    specs: dict[str, type[Spec]] = {
        "Stream": StreamSpec,
        "Cluster": ClusterSpec,
        "Grant": GrantSpec,
        "Tenant": TenantSpec,
        "ApprovalPolicy": ApprovalPolicySpec,
    }
    if not isinstance(kind, str) or kind not in specs:
        written = {each.lower(): each for each in specs}
        close = written.get(nearest(str(kind), list(written)), "Stream, Cluster, Grant, Tenant or ApprovalPolicy")
        raise Invalid(f"{kind!r} is not known", field="kind", remedy=f"write {close}")
    spec = specs[kind]()
    from_document(document.get("spec") or {}, spec, "spec")
    if isinstance(spec, GrantSpec | ApprovalPolicySpec) and spec.resource == "mesh":
        spec.resource = ""  # as the mesh itself writes it
    return Declared(kind, _read_name(document.get("metadata")), spec, where)


def _read_name(metadata: Value) -> str:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise Invalid("a name is missing", field="metadata.name", remedy="write metadata: {name: logs}")
    for name in metadata:
        if name not in _METADATA:
            raise unknown_field(name, "metadata", _METADATA)
    return check_name(str(metadata["name"]), "metadata.name")


def _read(path: Path) -> str:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(CLI_MANIFEST_BYTES_MAX + 1)
        else:
            with path.open("rb") as file:
                data = file.read(CLI_MANIFEST_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="--filename") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8", field="--filename") from error
    if len(data) > CLI_MANIFEST_BYTES_MAX:
        raise Invalid(f"{path} is larger than {CLI_MANIFEST_BYTES_MAX} bytes", field="--filename", remedy="split it")
    return text


class _Loader(yaml.SafeLoader):
    """Loads plain values only; `off` and `yes` stay text (a mode is called so), and no name may appear twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own way to say it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """Builds a mapping as the base class does, after a check for duplicate names."""
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
