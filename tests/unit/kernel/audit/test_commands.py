"""The command that a record names: a verb that exists, and of the request only what is listed."""

import pytest
from typer.main import get_command

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.dlq.v1 import dlq_service_pb2 as dlq
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.registry.v1 import grant_pb2 as grants
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1.stream_pb2 import LaneSpec, StreamSpec
from braid.cli.app import application
from braid.kernel.access.table import TABLE, row_of
from braid.kernel.audit.commands import COMMANDS, WITHOUT, Twin, command_of
from tests.unit.kernel.access.api import Method, methods


def changing() -> list[Method]:
    """Every unary method that changes something."""
    found = [each for each in methods() if not each.client_streams and not each.server_streams]
    return [each for each in found if (row := row_of(each.service, each.name)) is not None and row.mutates]


@pytest.mark.parametrize("method", changing(), ids=lambda method: f"{method.service}.{method.name}")
def test_every_change_has_a_command_or_is_said_to_have_none(method: Method) -> None:
    key = (method.service, method.name)
    assert (key in COMMANDS) != (key in WITHOUT)
    line = command_of(method.service, method.name, method.message())
    assert line.startswith("braid ") is (key in COMMANDS)


def test_commands_are_of_methods_that_exist() -> None:
    assert all(rpc in TABLE[service] for service, rpc in [*COMMANDS, *WITHOUT])


@pytest.mark.parametrize("twin", COMMANDS.values(), ids=lambda twin: twin.words)
def test_verbs_and_flags_of_commands_exist(twin: Twin) -> None:
    for words in filter(None, (twin.words, twin.otherwise)):
        verb, *rest = words.split()
        command = get_command(application([verb]))
        for word in (verb, *rest):
            command = getattr(command, "commands", {}).get(word, command)
        flags = {flag for each in command.params for flag in each.opts}
        assert {flag for flag, _ in twin.options} <= flags or words == twin.otherwise, words


@pytest.mark.parametrize(
    ("service", "rpc", "request_", "line"),
    [
        (
            "registry",
            "MoveStream",
            registry.MoveStreamRequest(stream="logs", to_cluster="west", lanes=["live", "bulk"], dry_run=True),
            "braid move stream logs --lane live --lane bulk --to west --dry-run",
        ),
        (
            "registry",
            "CordonCluster",
            registry.CordonClusterRequest(name="east", cordoned=True),
            "braid cordon cluster east",
        ),
        ("registry", "CordonCluster", registry.CordonClusterRequest(name="east"), "braid uncordon cluster east"),
        (
            "registry",
            "CreateStream",
            registry.CreateStreamRequest(name="logs", spec=StreamSpec(lanes={"live": LaneSpec(partitions=4)})),
            "braid create stream logs --lane live=4",
        ),
        (
            "registry",
            "GrantAccess",
            grants.GrantAccessRequest(
                spec=grants.GrantSpec(
                    principal="dns:web", role=grants.ACCESS_ROLE_STREAM_OWNER, resource="stream/pay-*", reason="private"
                )
            ),
            "braid grant stream-owner --to dns:web --on 'stream/pay-*'",
        ),
        ("assigner", "PinLease", assigner.PinLeaseRequest(lease="logs/live/1/3"), "braid unpin lease logs/live/1/3"),
        (
            "dlq",
            "CreateReplay",
            dlq.CreateReplayRequest(spec=ReplaySpec(stream="logs", filter="key=card-4711", rate_per_s=50.0)),
            "braid dlq replay --stream logs --rate 50",
        ),
        ("registry", "DeleteStream", registry.DeleteStreamRequest(name="a'b; rm"), "braid delete stream 'a'\\''b; rm'"),
    ],
)
def test_a_command_says_what_the_request_asks_for(service: str, rpc: str, request_: object, line: str) -> None:
    assert command_of(service, rpc, request_) == line
