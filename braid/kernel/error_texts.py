"""The text of an error that somebody else raised, whatever it is."""


def text_of(error: object) -> str:
    """The text of an error, or of what was given as one; the name of its class where it has none.

    It may be anybody's: one whose `__str__` fails has no text, and what no UTF-8 holds is replaced.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it may raise anything, and what it was to describe has happened all the same
        text = ""
    return text.encode("utf-8", "replace").decode() or type(error).__name__
