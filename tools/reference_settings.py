"""Generates the page of settings: what each service's process reads from its environment or its file."""

import importlib
import re
from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from braid.runtime.settings import CONFIG_VARIABLE, Settings
from console.server.config import ConsoleSettings
from tools.reference_text import code, page, prose, sentence, table

_INTRODUCTION: Final = f"""Every service is one process kind, `python -m services.NAME`, and reads its settings from
variables, or from the TOML file that `{CONFIG_VARIABLE}` names, where the names are in small letters and without the
prefix; variables win. A setting that is missing or wrong ends the process with code 2 and its name."""
_CLIENTS: Final = (
    ("BRAID_ENDPOINT", "the command line, `braid.connect`", "`HOST:PORT` of any replica; several separated by commas."),
    ("BRAID_CONTEXT", "the same", "A mesh named in the contexts file."),
    ("BRAID_CONTEXTS", "the same", "The contexts file; `braid/contexts.yaml` in the user's configuration."),
    ("BRAID_CONSOLE", "`braid open`", "The address of a console elsewhere, `https://NAME`."),
    ("BRAID_KAFKA_PROFILES", "whatever talks to Kafka", "A directory of security profiles, `NAME.toml` each."),
    ("BRAID_KAFKA_PROFILE_…", "whatever talks to Kafka", "The file of one security profile, named in capitals there."),
)
_ATTRIBUTE: Final = re.compile(r"^\s+(\w+): (.+?)(?=^\s+\w+: |\Z)", re.MULTILINE | re.DOTALL)


def settings_page(root: Path) -> str:
    """The page of settings, from the services of a checkout that have a `config`."""
    names = sorted(path.parent.name for path in (root / "services").glob("*/config.py"))
    parts = ["## Every service\n", _table(Settings, set())]
    for name in names:
        for kind in _kinds(f"services.{name}.config"):
            rows = _table(kind, set(Settings.model_fields))
            parts += [f"## {name}\n", f"{prose(sentence(kind.__doc__))}\n", rows or "Nothing beside those.\n"]
    parts += ["## console\n", f"{prose(sentence(ConsoleSettings.__doc__))}\n"]
    parts.append(_table(ConsoleSettings, set(), "BRAID_CONSOLE_"))
    clients = table(("Variable", "Read by", "Meaning"), [(code(name), by, what) for name, by, what in _CLIENTS])
    return page("Settings", _INTRODUCTION, [*parts, "## Clients\n", clients])


def _kinds(module: str) -> list[type[Settings]]:
    found = vars(importlib.import_module(module)).values()
    return [
        each for each in found if isinstance(each, type) and issubclass(each, Settings) and each.__module__ == module
    ]


def _table(kind: type[BaseSettings], without: set[str], prefix: str = "BRAID_") -> str:
    meanings = _meanings(kind)
    rows = [
        (code(f"{prefix}{name.upper()}"), code(_type(field)), _default(field), meanings.get(name, ""))
        for name, field in kind.model_fields.items()
        if name not in without
    ]
    return table(("Variable", "Type", "Default", "Meaning"), rows)


def _meanings(kind: type[BaseSettings]) -> dict[str, str]:
    _, _, attributes = (kind.__doc__ or "").partition("Attributes:\n")
    return dict(_ATTRIBUTE.findall(attributes))


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("pathlib.", "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:  # made where it runs: its meaning says from what
        return ""
    return code(str(field.default)) if field.default not in (None, "") else ""
