"""The verb `get lag`: chooses between lag now, lag as it changes, and lag over time."""

from typing import NamedTuple

from braid.cli.core.execution import execute
from braid.cli.core.output import Format
from braid.cli.resources.lag.history import Asked, get_lag_history
from braid.cli.resources.lag.listing import get_lag, parse_detail, scope_of, watch_lag
from braid.kernel.errors import Invalid


class LagOptions(NamedTuple):
    """The options of `get lag` as typed."""

    name: str
    stream: str
    detail: str
    watch: bool
    since: str
    step: str


def show_lag(options: LagOptions, format: Format, endpoint: str, context: str) -> None:
    """Runs `get lag`. Raises `Invalid` for options that do not go together."""
    scope = scope_of(options.name, options.stream)
    if options.since:
        for flag, given in (("--watch", options.watch), ("--detail", options.detail)):
            if given:
                raise Invalid("the past is kept by lane and does not change", field=flag, remedy="leave it out")
        asked = Asked(options.since, options.step)
        execute(endpoint, context, lambda session: get_lag_history(session, scope, asked, format))
        return
    if options.step:
        raise Invalid("only rows over time have a length", field="--step", remedy="add --since 2h")
    work, level = watch_lag if options.watch else get_lag, parse_detail(options.detail or "lane")
    execute(endpoint, context, lambda session: work(session, scope, level, format))
