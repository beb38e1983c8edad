"""A page: its parameters, its parts, and the reads that fill them. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from console.server.limits import PARAMETER_CHARS_MAX, PARAMETERS_MAX, POLL_SECONDS
from console.server.live.parts import Content, Part
from console.server.reads.reader import Reader

AT: Final = "at_ms"  # the parameter that names a moment of the past
Params = Mapping[str, str]
Take = Callable[[Reader, Params], Awaitable[Mapping[str, Content]]]
Derive = Callable[[Mapping[str, Part]], Mapping[str, Part]]


def _nothing(parts: Mapping[str, Part]) -> Mapping[str, Part]:
    return {}


class Read(NamedTuple):
    """One read, which fills some parts of a page.

    Attributes:
        parts: Their names.
        take: Asks the services.
        seconds: Between two reads.
        once: What it reads does not change: after an answer, or a refusal, it is not read again.
    """

    parts: tuple[str, ...]
    take: Take
    seconds: float = POLL_SECONDS
    once: bool = False


class View(NamedTuple):
    """A page with its parts and the reads that fill them.

    Attributes:
        name: As its address has it.
        parts: Its parts by name, and whether each is a table.
        reads: What fills them.
        derived: Parts that follow from others, made anew when any of those changes.
    """

    name: str
    parts: Mapping[str, bool]
    reads: Sequence[Read]
    derived: Derive = _nothing


class ViewKind(NamedTuple):
    """A kind of page: its parameters, and how one is made, with a memory of its own.

    Attributes:
        name: As its address has it.
        about: One line for people.
        required: Parameters that it needs.
        optional: Parameters that it may have.
        make: Makes a page of it.
        past: Makes a page of it as of a moment, which the parameter `at_ms` names; None where it may have none.
    """

    name: str
    about: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[], View]
    past: Callable[[], View] | None = None

    def view(self, params: Params) -> View:
        """Makes the page of these parameters."""
        return self.past() if self.past is not None and AT in params else self.make()

    def params(self, given: Sequence[tuple[str, str]]) -> dict[str, str]:
        """The parameters of a request, without empty ones. Raises `Invalid` naming the one at fault."""
        past = (AT,) if self.past is not None else ()
        found = checked_params(given, (*self.required, *self.optional, *past))
        for name in self.required:
            if name not in found:
                raise Invalid("is missing", field=name, remedy=f"the page needs {', '.join(self.required)}")
        return found


def checked_params(given: Sequence[tuple[str, str]], known: Sequence[str]) -> dict[str, str]:
    """Parameters within bounds, each known and given once; empty ones are left out. Raises `Invalid`."""
    if len(given) > PARAMETERS_MAX:
        raise Invalid(f"there are more than {PARAMETERS_MAX} parameters", field="parameters")
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            remedy = f"known here: {', '.join(known) or 'none'}"
            raise Invalid("there is no such parameter", field=name[:PARAMETER_CHARS_MAX], remedy=remedy)
        if name in found:
            raise Invalid("is given twice", field=name)
        if len(value) > PARAMETER_CHARS_MAX:
            raise Invalid(f"has more than {PARAMETER_CHARS_MAX} characters", field=name)
        found[name] = value
    return {name: value for name, value in found.items() if value}


def whole_number(params: Params, name: str, most: int) -> int:
    """A parameter that is a whole number from 0 to a bound; 0 where it is not given. Raises `Invalid`."""
    text = params.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) <= most):
        raise Invalid(f"{text[:100]!r} is no whole number up to {most}", field=name)
    return int(text)
