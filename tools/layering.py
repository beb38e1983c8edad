"""Checks the import rule by import-linter: `python -m tools.layering` compares the code with pyproject.toml.

Each contract there owns modules and lists everything they may import. Any other import is refused, be it ours, a third
party's or the standard library's. Root packages are read from the disk, so the rule applies to a package from its first
file on. A module that no contract owns is an error.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, configuration, fields, output
from importlinter.application.rendering import render_report
from importlinter.application.use_cases import create_report, read_user_options
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import registry

ROOT: Final = Path(__file__).resolve().parent.parent

# Top-level directories whose code may import anything and is imported by nobody, and what builds leave behind.
FREE: Final = frozenset({"build", "dist", "examples", "tests", "tools"})

# What only computes: no clock, no randomness, no I/O, no loop.
_VALUES: Final = """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses datetime decimal enum fractions
    functools hashlib heapq hmac ipaddress itertools json math numbers operator re statistics string struct textwrap
    types typing unicodedata zlib
"""
# What has a port: code that simulation must be able to run unchanged reaches these through `kernel.ports` alone.
_BEHIND_PORTS: Final = """
    multiprocessing random secrets select selectors socket socketserver sqlite3 subprocess threading time uuid
"""
# The event store's driver; `stores` alone names it.
_DRIVERS: Final = "sqlite3"

STDLIB: Final = {
    "values": frozenset(_VALUES.split()),
    "ported": sys.stdlib_module_names - frozenset(_BEHIND_PORTS.split()),
    "any": sys.stdlib_module_names - {_DRIVERS},
}


class AllowedImports(Contract):
    """Modules, and everything they may import directly.

    Options:
        modules: Patterns of the modules owned, each with its descendants; `*` stands within one segment, `=` before a
            pattern leaves descendants out.
        excluded: Patterns of modules another contract owns.
        allow: Patterns of modules and packages that may be imported. One that begins with a dot is relative to the
            parent of what the owning pattern matched. What an owning pattern matched may always import itself.
        deny: Patterns of what `allow` would let in and shall not.
        stdlib: `values`, `ported` or `any`.
    """

    type_name = "allowed"

    modules = fields.ListField(subfield=fields.StringField())
    excluded = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    allow = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    deny = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    stdlib = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collects every direct import of an owned module that nothing allows."""
        found = sorted(set(self._violations(graph)))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line per import."""
        for importer, line, imported in check.metadata["found"]:
            output.print_error(f"{importer}:{line} may not import {imported}", bold=False)
        output.new_line()

    def _violations(self, graph: ImportGraph) -> Iterator[tuple[str, int, str]]:
        standard = STDLIB[str(self.stdlib)]
        for importer in sorted(graph.modules):
            unit = owned_unit(importer, _strings(self.modules), _strings(self.excluded))
            if unit is None:
                continue
            allowed = [unit, *(_resolved(pattern, unit) for pattern in _strings(self.allow))]
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                denied = _any_match(imported, _strings(self.deny))
                if imported in standard or (_any_match(imported, allowed) and not denied):
                    continue
                for detail in graph.get_import_details(importer=importer, imported=imported):
                    for name in imported_names(detail["line_contents"], imported):
                        if denied or not _any_match(name, allowed):
                            yield importer, detail["line_number"], name


class EveryModuleOwned(Contract):
    """Checks that exactly one of the other contracts owns each of our modules on disk; the runner passes both in."""

    type_name = "owned"

    owners: Sequence[tuple[str, Sequence[str], Sequence[str]]] = ()
    modules: frozenset[str] = frozenset()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collects modules that no graph holds, and modules with no owner or with several."""
        lost = sorted(self.modules - graph.modules)
        found = [f"{module} is no part of a package: an __init__.py is missing" for module in lost]
        for module in sorted(self.modules):
            owners = [name for name, modules, excluded in self.owners if owned_unit(module, modules, excluded)]
            if len(owners) != 1:
                found.append(f"{module} is owned by {' and '.join(owners) or 'no contract'}")
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line per module."""
        for line in check.metadata["found"]:
            output.print_error(line, bold=False)
        output.new_line()


def owned_unit(module: str, modules: Iterable[str], excluded: Iterable[str]) -> str | None:
    """The part of a module's name that an owning pattern matched, or None when none does."""
    if any(_matched(module, pattern) for pattern in excluded):
        return None
    return next((unit for pattern in modules if (unit := _matched(module, pattern))), None)


def imported_names(line: str, imported: str) -> Sequence[str]:
    """The names that a line imports of a package, as precisely as the line shows.

    import-linter knows a third party only by its top-level name; the line distinguishes `opentelemetry.sdk` from its
    `trace`.
    """
    if match := re.match(r"\s*from\s+([\w.]+)\s+import\s+([\w ,]+)", line):
        if match[1] != imported:
            return [match[1]]
        return [f"{imported}.{name.split()[0]}" for name in match[2].split(",") if name.split()]
    names = (name.split()[0] for name in re.sub(r"^\s*import\s+", "", line).split(",") if name.split())
    return [name for name in names if name == imported or name.startswith(f"{imported}.")] or [imported]


def governed_modules(root: Path) -> frozenset[str]:
    """Names of all modules of a checkout that the rule applies to: every Python file below a top-level directory."""
    tops = (path for path in root.iterdir() if path.is_dir() and path.name.isidentifier() and path.name not in FREE)
    files = (file.relative_to(root) for top in tops for file in top.rglob("*.py"))
    return frozenset(".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files)


def lint(root: Path, config: Path) -> bool:
    """Checks a checkout against the contracts of a configuration, and prints the report.

    Args:
        root: The checkout; its directory must be first on `sys.path`.
        config: A pyproject.toml with `[[tool.importlinter.contracts]]`.

    Returns:
        Whether every contract is kept.
    """
    configuration.configure()
    options = read_user_options(str(config))
    modules = governed_modules(root)
    roots = sorted({module.partition(".")[0] for module in modules})
    options.session_options["root_packages"] = roots
    EveryModuleOwned.modules = modules
    owning = [each for each in options.contracts_options if each["type"] == AllowedImports.type_name]
    EveryModuleOwned.owners = [_owner(contract) for contract in owning]
    options.contracts_options.append(
        {"id": "owned", "name": "every module is owned", "type": EveryModuleOwned.type_name}
    )
    registry.register(LayersContract, "layers")
    for contract in (AllowedImports, EveryModuleOwned):
        registry.register(contract, contract.type_name)
    report = create_report(options, cache_dir=None)
    if report.contains_failures:
        render_report(report)
    return not report.contains_failures


def _owner(contract: Mapping[str, object]) -> tuple[str, Sequence[str], Sequence[str]]:
    return str(contract["name"]), _strings(contract["modules"]), _strings(contract.get("excluded", []))


def _strings(value: object) -> Sequence[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _resolved(pattern: str, unit: str) -> str:
    if not pattern.startswith("."):
        return pattern
    return f"{unit.rpartition('.')[0]}{pattern.rstrip('.')}"


def _any_match(module: str, patterns: Iterable[str]) -> bool:
    return any(_matched(module, pattern) for pattern in patterns)


def _matched(module: str, pattern: str) -> str | None:
    """The leading segments of a module's name that a pattern matches, or None."""
    exact, parts = pattern.startswith("="), pattern.removeprefix("=").split(".")
    segments = module.split(".")
    if len(segments) < len(parts) or (exact and len(segments) > len(parts)):
        return None
    if all(fnmatchcase(segment, part) for segment, part in zip(segments, parts, strict=False)):
        return ".".join(segments[: len(parts)])
    return None


def main(arguments: Sequence[str]) -> int:
    """Checks the checkout named by the first argument, by default this one; returns 1 if a contract is broken."""
    root = Path(arguments[0]).resolve() if arguments else ROOT
    sys.path.insert(0, str(root))
    return 0 if lint(root, ROOT / "pyproject.toml") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
