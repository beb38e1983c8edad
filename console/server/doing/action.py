"""An action: its arguments, its RPC, and the command that would do the same. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import Message

from braid.kernel.errors import Invalid
from braid.rpc.documents import Document
from console.server.doing.arguments import Argument, Given, read_arguments

BESIDE: Final = ("dry_run", "confirm", "request_id")  # of a request, beside its arguments


class Call(NamedTuple):
    """An RPC with its request, ready to be sent."""

    service: str
    method: str
    request: Message
    response_type: type[Message]


class Action(NamedTuple):
    """An action that people take in the console.

    Attributes:
        verb: As its address has it.
        about: One line for people.
        arguments: What it takes.
        call: The RPC of arguments. Raises `Invalid`.
        command: The words of the command after `braid`, which may be wrong only where `call` raises.
        done: One line for people, from the answer.
        dry_run: Whether the mesh can only check it.
        confirms: The argument that people type again before something is destroyed; empty where nothing is.
    """

    verb: str
    about: str
    arguments: Sequence[Argument]
    call: Callable[[Given], Call]
    command: Callable[[Given], list[str]]
    done: Callable[[Given, Message], str]
    dry_run: bool = False
    confirms: str = ""

    def document(self) -> Document:
        """The action as JSON has it."""
        return {
            "verb": self.verb,
            "about": self.about,
            "dry_run": self.dry_run,
            "destructive": bool(self.confirms),
            "confirms": self.confirms,
            "arguments": [each.document() for each in self.arguments],
        }

    def given(self, body: Document) -> Given:
        """The arguments of a request's body. Raises `Invalid`."""
        dry_run = body.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise Invalid("is neither true nor false", field="dry_run")
        if dry_run and not self.dry_run:
            raise Invalid(f"the mesh cannot only check `{self.verb}`", field="dry_run", remedy="leave it out")
        arguments = {name: value for name, value in body.items() if name not in BESIDE}
        return read_arguments(arguments, self.arguments, dry_run)

    def check_confirmed(self, given: Given, body: Document) -> None:
        """Raises `Invalid` where something would be destroyed whose name was not typed again."""
        if self.confirms and not given.dry_run and body.get("confirm") != given.text(self.confirms):
            remedy = f"type the {self.confirms}'s name again"
            raise Invalid("is not the name of what would be changed", field="confirm", remedy=remedy)


def options(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The options of a command that have a value. `--flag=value`, so that no value passes for another option."""
    return [f"{flag}={value}" for flag, value in pairs if value]
