"""`braid acls generate`: commands and documents it prints, and what it refuses before it asks anybody."""

import json
import shlex

import pytest
import yaml

from braid.cli.acls.listing import acl_commands
from braid.cli.app import run
from braid.kernel.ports import Acl

CONSUMER = ["--principal", "User:shop", "--role", "consumer", "--stream", "orders", "--group", "billing"]


def generated(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The output of `acls generate`."""
    assert run(["acls", "generate", *words]) == 0
    return capsys.readouterr().out


def test_commands_are_printed_each_with_its_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    lines = generated(capsys, *CONSUMER, "--bootstrap", "east:9093").splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert all(line.startswith("kafka-acls.sh --bootstrap-server east:9093 ") for line in commands)
    assert any(
        line.endswith("--operation Read --topic braid.orders. --resource-pattern-type prefixed") for line in commands
    )
    assert any(line.endswith("--operation Read --group billing") for line in commands)
    assert any(line.endswith("--operation DescribeConfigs --cluster") for line in commands)
    assert "# Write: copy records that failed to the dlq lane" in lines


def test_names_reach_the_shell_as_they_are() -> None:
    printed = acl_commands("User:CN=a b;rm -rf *", [Acl("Group", "*", "Literal", "Read", "why")], "h:1")
    words = shlex.split(printed.splitlines()[-1])
    assert words[words.index("--allow-principal") + 1] == "User:CN=a b;rm -rf *"
    assert words[words.index("--group") + 1] == "*"
    assert "'*'" in printed


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_documents_say_the_same_for_programs(capsys: pytest.CaptureFixture[str], format: str) -> None:
    text = generated(capsys, *CONSUMER, "-o", format)
    acls = (json.loads(text) if format == "json" else yaml.safe_load(text))["acls"]
    assert {each["principal"] for each in acls} == {"User:shop"}
    assert {"operation": "Read", "resource_type": "Group", "resource_name": "billing"}.items() <= acls[3].items()
    assert acls[0]["pattern_type"] == "Prefixed" and acls[0]["permission_type"] == "Allow"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--role", "producer"], "--principal"),
        (["--principal", "shop"], "--role"),
        (["--principal", "shop", "--role", "consumer"], "--group"),
        ([*CONSUMER, "--apply"], "--bootstrap"),
        ([*CONSUMER, "-o", "table"], "--output"),
        ([*CONSUMER, "--apply", "--bootstrap", "nowhere"], "names no brokers"),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert run(["acls", "generate", *words]) == 2
    assert said in capsys.readouterr().err
