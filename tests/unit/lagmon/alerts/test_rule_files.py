"""The rule file for Prometheus: complete, sound YAML, and the same as the one that is checked in."""

from typing import Any

import pytest
import yaml

from braid.kernel.errors import Invalid
from services.lagmon.alerts.decisions.model import RULES, Severity
from services.lagmon.alerts.outlets.decisions.alertmanager import alert_name
from services.lagmon.alerts.rule_files import RUNBOOKS, rule_file
from tools.alert_rules import FILE


def alerts(runbooks: str = RUNBOOKS) -> dict[str, dict[str, Any]]:
    """The alerts of the file, by name."""
    groups = yaml.safe_load(rule_file(runbooks))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_each_rule_is_an_alert_of_its_severity_and_with_its_page() -> None:
    found = alerts("https://docs.example/runbooks/")
    for rule in RULES.values():
        alert = found[alert_name(rule.name)]
        assert alert["labels"] == {"severity": Severity(rule.severity).name.lower(), "rule": rule.name}
        assert alert["annotations"]["description"] == rule.remedy
        assert alert["annotations"]["runbook_url"] == f"https://docs.example/runbooks/{rule.name}.md"
        assert "{stream}" not in alert["annotations"]["command"]
    assert len(found) == len(RULES) + 2


def test_the_checked_in_file_is_what_the_declarations_give() -> None:
    assert FILE.read_text() == rule_file(RUNBOOKS), "run: python -m tools.alert_rules"


@pytest.mark.parametrize("runbooks", ["x" * 513, "a\nb", "{{ $labels.x }}", "\x1b[2J"])
def test_a_place_that_cannot_be_one_is_refused(runbooks: str) -> None:
    with pytest.raises(Invalid):
        rule_file(runbooks)


@pytest.mark.parametrize("runbooks", ['https://a.example/"x"', "https://a.example/: #b", "https://a.example/'"])
def test_a_place_cannot_change_the_rules(runbooks: str) -> None:
    changed, same = alerts(runbooks), alerts()
    assert {name: rule["expr"] for name, rule in changed.items()} == {n: rule["expr"] for n, rule in same.items()}
    assert changed["BraidLagPage"]["annotations"]["runbook_url"] == f"{runbooks}/lag-page.md"
