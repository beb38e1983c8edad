"""Certificates that end: told in time for their lives, once for an authority, and never out of ignorance."""

from collections.abc import Mapping

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.limits.lagmon.alerts import ALERT_CERTIFICATE_KEPT_SECONDS, ALERT_CERTIFICATES_MAX
from braid.kernel.timing.days import DAY_MS
from services.lagmon.alerts.decisions.certificates import (
    EXPIRED,
    Certificates,
    ReplicaCertificates,
    ValidTime,
    certificate_conditions,
)
from services.lagmon.alerts.decisions.model import check_alert_name

NOW_MS = 1_770_000_000_000
CA = ValidTime(NOW_MS - 100 * DAY_MS, NOW_MS + 3_000 * DAY_MS)


def ending(days: float, life: float = 365) -> ValidTime:
    """The time of a certificate that ends in so many days."""
    return ValidTime(NOW_MS + round((days - life) * DAY_MS), NOW_MS + round(days * DAY_MS))


def found(readings: Mapping[str, ReplicaCertificates | None]) -> dict[str, bool | None]:
    """Returns what the rules say, by the names of alerts; what does not hold is left out."""
    conditions = certificate_conditions(readings, NOW_MS)
    return {each.key.name: each.holds for each in conditions if each.holds is not False}


def summary(readings: Mapping[str, ReplicaCertificates | None], name: str) -> str:
    """Why an alert fires."""
    return next(each.summary for each in certificate_conditions(readings, NOW_MS) if each.key.name == name)


PAGE, TICKET = "certificate/dlq-0/certificate-page", "certificate/dlq-0/certificate-ticket"
CA_PAGE, CA_TICKET = "certificate/authority/certificate-page", "certificate/authority/certificate-ticket"


@pytest.mark.parametrize(
    ("days", "life", "told"),
    [
        (31, 365, {}),
        (29.9, 365, {TICKET: True}),
        (3.1, 365, {TICKET: True}),
        (2.9, 365, {PAGE: True, TICKET: None}),
        (-1, 365, {PAGE: True, TICKET: None}),
        (30, 90, {}),  # what renews it in its last third has just begun
        (26, 90, {TICKET: True}),
        (0.4, 1, {}),  # of a day's life, renewed by a program
        (0.2, 1, {TICKET: True}),
        (0.09, 1, {PAGE: True, TICKET: None}),
    ],
)
def test_a_certificate_that_ends_is_told_in_time(days: float, life: float, told: dict[str, bool | None]) -> None:
    assert found({"dlq-0": ReplicaCertificates(ending(days, life), CA)}) == told
    assert found({"dlq-0": ReplicaCertificates(ending(400), CA, ending(days, life))}) == told


def test_a_summary_names_what_ends_first() -> None:
    assert summary({"dlq-0": ReplicaCertificates(ending(2), CA)}, PAGE) == "the certificate of dlq-0 ends in 2.0 days"
    store = {"dlq-0": ReplicaCertificates(ending(20), CA, ending(1))}
    assert summary(store, PAGE) == "what dlq-0 shows the event store ends in 24.0 hours"
    over = {"dlq-0": ReplicaCertificates(ending(-1), CA)}
    assert summary(over, PAGE) == "the certificate of dlq-0 has expired"


def test_a_plain_mesh_has_no_alerts_about_certificates() -> None:
    assert list(certificate_conditions({"dlq-0": ReplicaCertificates()}, NOW_MS)) == []
    assert list(certificate_conditions({}, NOW_MS)) == []
    assert list(certificate_conditions(None, NOW_MS)) == []


def test_an_authority_that_ends_is_one_alert() -> None:
    soon = ending(5, 3_650)
    three = {f"dlq-{number}": ReplicaCertificates(soon, soon) for number in range(3)}
    assert found(three) == {
        CA_PAGE: True, CA_TICKET: None,
        **{f"certificate/dlq-{n}/certificate-{kind}": None for n in range(3) for kind in ("page", "ticket")},
    }  # fmt: skip
    assert summary(three, CA_PAGE) == "the authority ends in 5.0 days that signed what dlq-0, dlq-1, dlq-2 show"
    outlived = {"dlq-0": ReplicaCertificates(ending(400), ending(80, 3_650))}
    assert found(outlived) == {CA_TICKET: True, PAGE: None, TICKET: None}
    one = {"dlq-0": ReplicaCertificates(ending(4), soon)}  # ends sooner by itself
    assert found(one) == {CA_PAGE: True, CA_TICKET: None, TICKET: True}


def test_what_was_never_heard_is_not_known() -> None:
    assert found({"dlq-0": None}) == dict.fromkeys((PAGE, TICKET, CA_PAGE, CA_TICKET))
    assert found({"dlq-0": None, "dlq-1": ReplicaCertificates(ending(400), CA)}) == dict.fromkeys(
        (PAGE, TICKET, CA_PAGE, CA_TICKET)
    )
    assert found({"dlq-0": None, "dlq-1": ReplicaCertificates(ending(400), ending(5))})[CA_PAGE] is True


def test_an_expired_replica_is_told_and_keeps_what_it_said() -> None:
    known = Certificates()
    known.observe(["dlq-0", "dlq-1"], {"dlq-0": ReplicaCertificates(ending(400), CA)}, 0.0)
    assert known.readings == {"dlq-0": ReplicaCertificates(ending(400), CA), "dlq-1": None}
    known.observe(["dlq-0", "dlq-1"], {"dlq-0": EXPIRED, "dlq-1": EXPIRED}, 60.0)
    assert known.readings == {"dlq-0": ReplicaCertificates(ending(400), CA, expired=True), "dlq-1": EXPIRED}
    assert found(known.readings)[PAGE] is True
    assert "has expired: nobody can open a connection" in summary(known.readings, PAGE)
    known.observe(["dlq-0"], {"dlq-0": ReplicaCertificates(ending(90), CA)}, 120.0)  # another certificate
    assert PAGE not in found(known.readings)


def test_a_restarting_replica_is_kept_and_a_gone_one_forgotten() -> None:
    known = Certificates()
    known.observe(["dlq-0"], {"dlq-0": ReplicaCertificates(ending(2), CA)}, 0.0)
    known.observe([], {}, ALERT_CERTIFICATE_KEPT_SECONDS)
    assert found(known.readings).get(PAGE) is True
    known.observe([], {}, ALERT_CERTIFICATE_KEPT_SECONDS + 1)
    assert known.readings == {}


def test_replicas_beyond_the_bound_are_not_watched() -> None:
    known = Certificates()
    names = [f"dlq-{number}" for number in range(ALERT_CERTIFICATES_MAX + 2)]
    known.observe(names, dict.fromkeys(names, EXPIRED), 0.0)
    assert len(known.readings) == ALERT_CERTIFICATES_MAX


@pytest.mark.parametrize(
    "name", ["certificate/dlq-0", "certificate/DLQ/certificate-page", "certs/dlq-0/certificate-page"]
)
def test_a_name_of_no_alert_is_refused(name: str) -> None:
    assert check_alert_name(PAGE, "name") == PAGE
    with pytest.raises(Invalid):
        check_alert_name(name, "name")
