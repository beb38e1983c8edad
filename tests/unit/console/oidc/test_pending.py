"""Sign-ins under way: bound to a browser, counted once, over in time, and bounded in number."""

import os

from console.server.limits import LOGIN_SECONDS, LOGINS_MAX
from console.server.oidc.pending import PendingLogins
from console.server.problems import Problem

MS = int(LOGIN_SECONDS * 1_000)


def test_the_challenge_is_that_of_the_standard() -> None:
    """The example of RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    _, pending = PendingLogins(os.urandom).begin("", "/", 0)
    assert pending._replace(verifier=verifier).challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert len(pending.verifier) == len(pending.state) == 43


def test_a_record_that_a_browser_invents_is_not_taken_over() -> None:
    logins = PendingLogins(os.urandom)
    id, _ = logins.begin("planted", "/", 0)
    assert id != "planted"
    assert logins.begin(id, "/", 1)[0] == id
    assert logins.begin(id, "/", MS + 1)[0] != id


def test_the_oldest_browsers_are_forgotten_at_the_bound() -> None:
    logins = PendingLogins(os.urandom)
    first, pending = logins.begin("", "/", 0)
    second, other = logins.begin("", "/", 0)
    logins.begin(first, "/", 1)  # it is the newest now
    for _ in range(LOGINS_MAX - 1):
        logins.begin("", "/", 1)
    assert logins.take(second, other.state, 2) is None
    assert logins.take(first, pending.state, 2) is pending


def test_what_is_over_is_forgotten_with_its_problem() -> None:
    logins = PendingLogins(os.urandom)
    id, pending = logins.begin("", "/", 0)
    logins.fail(id, Problem(401, "UNAUTHENTICATED", "no"))
    assert logins.problem(id, MS - 1) is not None
    assert logins.problem(id, MS) is None
    logins.close_ended(MS)
    assert logins.take(id, pending.state, 0) is None
    logins.fail(id, Problem(401, "UNAUTHENTICATED", "no"))  # nobody's
    assert logins.problem(id, 0) is None


def test_a_later_sign_in_of_the_browser_lengthens_no_earlier_one() -> None:
    logins = PendingLogins(os.urandom)
    id, first = logins.begin("", "/", 0)
    _, second = logins.begin(id, "/", MS - 1)
    assert logins.take(id, first.state, MS) is None
    assert logins.take(id, second.state, MS) is second
