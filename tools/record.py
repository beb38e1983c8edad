"""Records a terminal as a picture: runs a command in one, and draws its output as an SVG without external fonts.

`python -m tools.record [--width N] [--title TEXT] OUTPUT.svg COMMAND …` returns the command's exit code, and draws
nothing if it failed. `python -m tools.record --from SAVED.txt OUTPUT.svg` draws the output saved beside a picture.
"""

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH: Final = 104
_ROWS: Final = 50
_ERASED: Final = re.compile(r"^.*(?:\r(?!$)|\x1b\[2?K)", re.MULTILINE)  # what a line showed before it was drawn anew
_SEQUENCE: Final = re.compile(r"\x1b\[[\d;?]*[A-Za-ln-z]")  # sequences other than colours
_THEME: Final = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [
        *((72, 79, 88), (255, 123, 114), (63, 185, 80), (227, 179, 65)),
        *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
    ],
)
# As rich's own, without the fonts that it loads from another host; the unused matrix of rich's `{lines}` stays.
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>{name}</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""


def run(command: Sequence[str], width: int) -> tuple[int, str]:
    """Runs a command in its own terminal and shows its output; returns its exit code and its output."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as running:
        os.close(follower)
        printed = bytearray()
        while piece := _read(leader):
            printed += piece
            sys.stdout.write(piece.decode("utf-8", "replace"))
            sys.stdout.flush()
    os.close(leader)
    return running.returncode, printed.decode("utf-8", "replace")


def screen(printed: str) -> str:
    """The final screen: a redrawn line shows its last state. Colours stay."""
    lines = printed.replace("\r\n", "\n")
    return _SEQUENCE.sub("", _ERASED.sub("", lines)).strip("\n") + "\n"


def draw(shown: str, title: str, width: int) -> str:
    """Draws a screen as the text of an SVG.

    Args:
        shown: Lines with their colours as escape sequences.
        title: The window's title, and the picture's alternative text.
        width: In characters.
    """
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(shown.rstrip("\n")), soft_wrap=False)
        return console.export_svg(title=title, theme=_THEME, code_format=_FORMAT.replace("{name}", _escaped(title)))


def main(arguments: Sequence[str]) -> int:
    """Records, or draws a saved recording; returns the recorded command's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description="Draw what a command prints.")
    parser.add_argument("--width", type=int, default=WIDTH, help="of the terminal, in letters (%(default)s)")
    parser.add_argument("--title", default="", help="of the window (the command, where none is given)")
    parser.add_argument("--from", dest="saved", type=Path, help="what was printed before, instead of running a command")
    parser.add_argument("output", type=Path, help="the picture; what was printed is saved beside it as .txt")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    options = parser.parse_args(arguments)
    if (options.saved is None) is not bool(options.command):
        parser.error("give a command to run, or --from a file that was saved")
    if options.saved is not None:
        shown = options.saved.read_text(encoding="utf-8")
    else:
        code, printed = run(options.command, options.width)
        if code:
            print(f"{shlex.join(options.command)} ended with {code}: no picture was drawn", file=sys.stderr)
            return code
        shown = screen(printed)
        options.output.with_suffix(".txt").write_text(shown, encoding="utf-8")
    title = options.title or shlex.join(options.command) or options.output.stem
    options.output.write_text(draw(shown, title, options.width), encoding="utf-8")
    return 0


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # every process has left the terminal
        return b""


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("{", "{{").replace("}", "}}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
