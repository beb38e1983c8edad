"""The documentation site: it builds, and each kind of broken link turns its check red."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tools import site
from tools.site_links import markdown_faults, site_faults

ROOT: Final = Path(__file__).resolve().parents[3]
CONFIG: Final = (
    "site_name: Trial\nsite_dir: build/site\nuse_directory_urls: false\nstrict: true\ntheme: {font: false}\n"
)


def page(body: str) -> str:
    """One built page."""
    return f"<!doctype html><html><head></head><body>{body}</body></html>"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A checkout with two pages in `docs/`, the site they give, and one Markdown file beside them."""
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[move](guides/move.md#how)\n")
    (tmp_path / "docs" / "guides" / "move.md").write_text("# Move\n\n## How\n\n[home](../index.md)\n")
    (tmp_path / "README.md").write_text("[move](docs/guides/move.md#how), `[not](a-link.md)`\n")
    built = tmp_path / "site"
    (built / "guides").mkdir(parents=True)
    (built / "index.html").write_text(
        page(
            '<link rel=stylesheet href="a.css"><a href="guides/move.html#how">move</a><a href="https://kafka.apache.org">K</a>'
        )
    )
    (built / "guides" / "move.html").write_text(page('<h2 id="how">How</h2><a href="../index.html">home</a>'))
    (built / "a.css").write_text("body { background: url(data:image/png;base64,AA) }")
    items = [{"location": "index.html"}, {"location": "guides/move.html#how"}]
    (built / "search.json").write_text(json.dumps({"items": items}))
    yield tmp_path


def found(checkout: Path) -> list[str]:
    """Every fault that the link checks report for a checkout."""
    built = checkout / "site"
    return [*site_faults(built, checkout / "docs"), *markdown_faults(checkout, built)]


def test_a_sound_site_has_no_fault(checkout: Path) -> None:
    assert found(checkout) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (
            "site/index.html",
            "<body>",
            '<body><a href="guides/gone.html">gone</a>',
            "index.html links to guides/gone.html: there is no such page",
        ),
        ("site/index.html", "#how", "#why", "index.html links to guides/move.html#why: that page has no such heading"),
        ("site/index.html", "a.css", "b.css", "index.html loads b.css: there is no such file"),
        (
            "site/index.html",
            '"a.css"',
            '"https://fonts.example/a.css"',
            "index.html loads https://fonts.example/a.css: keep",
        ),
        (
            "site/index.html",
            "<body>",
            '<body><script src="//cdn.example/x.js"></script>',
            "index.html loads //cdn.example/x.js",
        ),
        (
            "site/a.css",
            "url(data:image/png;base64,AA)",
            "url('https://fonts.example/f')",
            "a.css loads https://fonts.example/f",
        ),
        (
            "site/guides/move.html",
            "../index.html",
            "../../README.html",
            "guides/move.html links to ../../README.html: there",
        ),
        ("site/index.html", "guides/move.html#how", "index.html", "docs/guides/move.md: no page leads to it"),
        ("site/search.json", "guides/move.html#how", "index.html", "docs/guides/move.md: search does not know it"),
        ("README.md", "move.md#how", "gone.md", "README.md links to docs/guides/gone.md: there is no such file"),
        ("README.md", "#how", "#why", "README.md links to docs/guides/move.md#why: that page has no such heading"),
    ],
)
def test_a_broken_link_is_named_with_its_page(checkout: Path, name: str, old: str, new: str, fault: str) -> None:
    text = (checkout / name).read_text()
    assert old in text
    (checkout / name).write_text(text.replace(old, new))
    assert len(found(checkout)) == 1
    assert found(checkout)[0].startswith(fault)


def test_a_page_that_was_not_built_is_named(checkout: Path) -> None:
    (checkout / "docs" / "new.md").write_text("# New\n")
    assert found(checkout) == ["docs/new.md has no page in the site"]


def test_a_link_in_code_is_no_link(checkout: Path) -> None:
    with (checkout / "README.md").open("a") as readme:
        readme.write("```bash\necho '[a](b.md)'\n```\n")
    assert found(checkout) == []


@pytest.mark.parametrize(
    ("link", "sound"), [("guides/move.md#how", True), ("guides/gone.md", False), ("#nowhere", False)]
)
def test_the_check_builds_the_pages_and_refuses_a_broken_link(checkout: Path, link: str, sound: bool) -> None:
    shutil.rmtree(checkout / "site")
    (checkout / "mkdocs.yml").write_text(CONFIG)
    (checkout / "docs" / "index.md").write_text(f"# Home\n\n[move]({link}), [all](guides/move.md)\n")
    faults = site.faults(checkout)
    assert (faults == []) is sound
    assert sound or link in faults[0]
    assert sorted(path.name for path in checkout.iterdir()) == ["README.md", "docs", "mkdocs.yml"]


def test_an_unknown_verb_is_told_how_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert site.main(["nonsense"]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.slow
def test_the_site_of_this_checkout_has_no_fault(tmp_path: Path) -> None:
    built = tmp_path / "site"
    site.build(ROOT, built)
    assert [*site_faults(built, ROOT / "docs"), *markdown_faults(ROOT, built)] == []
    text = (built / "search.json").read_text()
    assert all(word in text for word in ("ride_out_seconds", "BRAID_STORE", "braid dev --detach", "CopiesSettled"))


def test_each_page_for_readers_is_in_the_menu() -> None:
    root = Path(__file__).parents[3]
    menu = (root / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [
        page for folder in ("explanation", "guides", "reference") for page in (root / "docs" / folder).glob("*.md")
    ]
    assert [page.name for page in pages if f": {page.parent.name}/{page.name}\n" not in menu] == []
