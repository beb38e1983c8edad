"""Which answers to a hello end a session for good."""

import pytest

from braid.client.session_errors import is_final
from braid.kernel.errors import AccessDenied, BraidError, NotFound, NotLeader, Unauthenticated, Unavailable, Unsupported


@pytest.mark.parametrize(
    "error", [AccessDenied("no"), Unauthenticated("who?"), NotFound("gone"), Unsupported("old", remedy="new")]
)
def test_what_saying_hello_again_cannot_mend_is_final(error: BraidError) -> None:
    assert is_final(error)


@pytest.mark.parametrize("error", [Unavailable("away"), NotLeader("ask another"), Unsupported("a stranger")])
def test_what_may_be_mended_is_not_final(error: BraidError) -> None:
    assert not is_final(error)
