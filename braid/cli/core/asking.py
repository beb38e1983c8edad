"""Asks the user at the terminal before something irreversible is done."""

import sys

from braid.kernel.errors import Invalid, Refused


def require_terminal(yes: bool, what: str) -> None:
    """Raises `Invalid` if --yes is missing and input is no terminal, so that nobody can be asked about `what`."""
    if not yes and not sys.stdin.isatty():
        raise Invalid(
            "this is no terminal, so nobody can confirm", field="--yes", remedy=f"repeat it with --yes to {what}"
        )


def ask(question: str, otherwise: str) -> None:
    """Asks for a yes. Raises `Refused` with the message `otherwise` for any other answer."""
    if _answer(f"{question} [y/N] ").lower() not in ("y", "yes"):
        raise Refused(otherwise, remedy="repeat it, or use --yes")


def confirm(what: str, name: str, yes: bool, *, verb: str = "delete", told: str = "") -> None:
    """Asks the user to type the name of what will be destroyed; `told` describes what the verb does to it.

    Raises:
        Invalid: nobody can be asked, and --yes is missing.
        Refused: another name was typed.
    """
    if yes:
        return
    require_terminal(yes, f"{verb} {what}")
    if _answer(f"{told or f'This deletes {what} for good.'} Type its name to continue: ") != name:
        raise Refused(f"{what} stays as it is: another name was typed", remedy="repeat it, or use --yes")


def _answer(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
