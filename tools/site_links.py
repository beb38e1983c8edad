"""The link rules of the documentation site: allowed targets of links in a built site and in the Markdown files beside
it."""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

HOME: Final = "index.html"
SEARCH: Final = "search.json"
_NOT_FOUND: Final = "404.html"  # no page links to it; its own links depend on the path where the site is served
# Attributes by which a page makes the browser load something, by element.
_LOADS: Final[Mapping[str, str]] = {
    **{name: "src" for name in ("script", "img", "iframe", "audio", "video", "source", "embed")},
    "link": "href",
    "object": "data",
}
# Elements of `link` that only name an address.
_NAMES_ONLY: Final = frozenset({"canonical", "next", "prev", "alternate"})
_STYLE_URL: Final = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s;]+)")
_MARKDOWN_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_FENCED: Final = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
# Directories not searched for Markdown: build output, other projects' files, and `docs`, which the site covers.
_NOT_OURS: Final = frozenset({"build", "dist", "docs", "node_modules"})


class Page(NamedTuple):
    """The links and anchors of one built page."""

    anchors: frozenset[str]
    links: tuple[str, ...]
    loads: tuple[str, ...]


def site_faults(site: Path, docs: Path) -> Iterator[str]:
    """The faults of a built site.

    Every link needs its page and its anchor; nothing may be loaded from another host; every page must be reachable from
    the first one and be in the search index.
    """
    pages = {path.relative_to(site).as_posix(): read_page(path) for path in sorted(site.rglob("*.html"))}
    pages.pop(_NOT_FOUND, None)
    for name, page in pages.items():
        yield from _page_faults(site, pages, name, page)
    for path in sorted(site.rglob("*.css")):
        for address in _STYLE_URL.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} loads {address}: keep a copy in docs/, or leave it out"
    reached = _reached(pages)
    searched = _searched(site)
    for source in sorted(docs.rglob("*.md")):
        name = source.relative_to(docs).with_suffix(".html").as_posix()
        if name not in pages:
            yield f"docs/{source.relative_to(docs)} has no page in the site"
        elif name not in reached:
            yield f"docs/{source.relative_to(docs)}: no page leads to it; name it in mkdocs.yml under nav"
        elif name not in searched:
            yield f"docs/{source.relative_to(docs)}: search does not know it"


def markdown_faults(root: Path, site: Path) -> Iterator[str]:
    """Links in a checkout's Markdown files outside `docs/` that lead to no file, or to no heading in `docs/`."""
    for source in sorted(root.rglob("*.md")):
        first = source.relative_to(root).parts[0]
        if "node_modules" in source.parts or first in _NOT_OURS or (first.startswith(".") and first != ".github"):
            continue
        text = _FENCED.sub("", source.read_text(encoding="utf-8"))
        for link in _MARKDOWN_LINK.findall(text):
            parts = urlsplit(link)
            if parts.scheme or not parts.path:
                continue
            target = (source.parent / unquote(parts.path)).resolve()
            if not target.exists():
                yield f"{source.relative_to(root)} links to {link}: there is no such file"
            elif parts.fragment and target.suffix == ".md" and target.is_relative_to(root / "docs"):
                page = site / target.relative_to(root / "docs").with_suffix(".html")
                if page.exists() and unquote(parts.fragment) not in read_page(page).anchors:
                    yield f"{source.relative_to(root)} links to {link}: that page has no such heading"


def read_page(path: Path) -> Page:
    """Reads one built page."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return Page(frozenset(reader.anchors), tuple(reader.links), tuple(reader.loads))


def _page_faults(site: Path, pages: Mapping[str, Page], name: str, page: Page) -> Iterator[str]:
    for address in dict.fromkeys(page.loads):
        parts = urlsplit(address)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            yield f"{name} loads {address}: keep a copy in docs/, or leave it out"
        elif not (site / _target(name, address)).is_file():
            yield f"{name} loads {address}: there is no such file"
    for link in dict.fromkeys(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = _target(name, link)
        if target not in pages:
            if not (site / target).is_file():
                yield f"{name} links to {link}: there is no such page"
        elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{name} links to {link}: that page has no such heading"


def _target(name: str, link: str) -> str:
    """The file of the site that a link on one of its pages leads to; outside the site as `../…`."""
    path = unquote(urlsplit(link).path)
    if not path:
        return name
    parts = [] if path.startswith("/") else name.split("/")[:-1]
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) + ("/index.html" if path.endswith("/") and parts else "") or HOME


def _reached(pages: Mapping[str, Page]) -> frozenset[str]:
    """Pages that are reachable from the first one."""
    seen, waiting = {HOME}, deque([HOME])
    while waiting:
        name = waiting.popleft()
        for link in pages[name].links if name in pages else ():
            target = "" if urlsplit(link).scheme or urlsplit(link).netloc else _target(name, link)
            if target in pages and target not in seen:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def _searched(site: Path) -> frozenset[str]:
    """Pages that are in the search index."""
    path = site / SEARCH
    if not path.exists():
        return frozenset()
    items = json.loads(path.read_text(encoding="utf-8"))["items"]
    return frozenset(_target(HOME, urlsplit(item["location"]).path) for item in items)


class _Reader(HTMLParser):
    """Collects the links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element's addresses and its anchor."""
        found = {name: value for name, value in attrs if value}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in _LOADS and _LOADS[tag] in found and found.get("rel") not in _NAMES_ONLY:
            self.loads.append(found[_LOADS[tag]])
