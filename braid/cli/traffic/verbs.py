"""The verbs `produce` and `consume`: lines to records, and records to lines."""

import sys
from datetime import datetime
from typing import Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.output import Format, parse_format
from braid.cli.core.times import parse_time
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import DELIVERY_TIMEOUT_SECONDS

_PRODUCE: Final = """Send lines from stdin to a stream; every line is a record. Ends when all are acknowledged.

\b
  braid produce logs < lines.txt
  printf 'host-1:hello\\n' | braid produce logs --key-delimiter :
  tail -f app.log | braid produce logs --lane bulk
"""
_CONSUME: Final = """Print a stream's records, one on a line, until Ctrl-C.

\b
  braid consume logs                       everything there is, and what comes
  braid consume logs --from 10m --max 5    records ingested in the last ten minutes
  braid consume logs --from latest --lane live --partition 3
  braid consume logs --filter 'json.level=error and header.tenant=acme'
  braid consume logs -o json | jq .value
  braid consume logs --group g             as a member of a group: what is printed is done

Without a group nothing is committed, and nobody's work is disturbed.

A filter compares key, value, id, lane, cluster, partition, offset, size, time, header.NAME and json.PATH.
"""
_Filter = Annotated[
    str, typer.Option("--filter", metavar="FILTER", help="Only records that match, such as json.level=error.")
]
_Headers = Annotated[bool, typer.Option("--headers", help="Print headers as name:value,… and a tab before each value.")]
_Stream = Annotated[str, typer.Argument(metavar="STREAM", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("produce", help=_PRODUCE)(_produce)
    app.command("consume", help=_CONSUME)(_consume)


def _produce(
    stream: _Stream,
    lane: Annotated[str, typer.Option(metavar="NAME", help="The lane; default: `live`, or the only lane.")] = "",
    key_delimiter: Annotated[
        str, typer.Option(metavar="TEXT", help="The text before it is the key; every line must contain it.")
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait for a record's acknowledgement.")
    ] = DELIVERY_TIMEOUT_SECONDS,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    from braid.cli.traffic.produce import produce_lines, read_descriptor

    execute(
        endpoint,
        context,
        lambda session: produce_lines(
            session, stream, lane, key_delimiter.encode(), timeout, read_descriptor(sys.stdin.fileno())
        ),
    )


def _consume(
    stream: _Stream,
    group: Annotated[str, typer.Option(metavar="NAME", help="Consume as a member of this group.")] = "",
    from_: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHERE", help="earliest, latest or a time; for a group, only at its first start."
        ),
    ] = "earliest",
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="NAME", help="Only this lane; may be repeated.")
    ] = None,
    partition: Annotated[
        int, typer.Option(metavar="N", show_default=False, help="Only this partition of each channel.")
    ] = -1,
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Only what lies on this cluster.")] = "",
    filter_: _Filter = "",
    headers: _Headers = False,
    most: Annotated[
        int, typer.Option("--max", min=0, metavar="N", show_default=False, help="End after this number of records.")
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, show_default=False, help="End when no such record has come for this long."
        ),
    ] = 0.0,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table or json.")] = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output, (Format.TABLE, Format.JSON))
    if group and partition >= 0:
        raise Invalid("a group's partitions are leased, not chosen", field="--partition", remedy="leave out --group")
    for name, text in (("--cluster", cluster), ("--filter", filter_)):
        if group and text:
            raise Invalid(
                "a group does all of its records, or none says they are done", field=name, remedy="leave out --group"
            )
    start: str | datetime = from_
    if from_ not in ("earliest", "latest"):
        start = parse_time(from_, datetime.now().astimezone(), "--from")
    from braid.cli.traffic.consume import Wanted, consume_records
    from braid.client.reading.record_filter import parse_predicate

    filter = parse_predicate(filter_, "--filter")
    only = None if partition < 0 else partition
    wanted = Wanted(stream, group, start, tuple(lane or ()), only, most, timeout, cluster, filter, headers)
    execute(endpoint, context, lambda session: consume_records(session, wanted, format))
