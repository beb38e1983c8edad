"""Settings that an application may choose for a consumer, checked when the consumer is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from braid.host.tracebacks import TRACEBACKS, check_tracebacks
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.assigner.leases import LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN
from braid.kernel.limits.client import (
    BACKLOG_PERMILLE_DEFAULT,
    CIRCUIT_FAILURES,
    CIRCUIT_PROBE_SECONDS,
    CIRCUIT_RATIO,
    CIRCUIT_SECONDS,
    COMMIT_INTERVAL_SECONDS,
    DEAD_LETTER_RATIO_MAX,
    DEAD_LETTER_WINDOW_RECORDS,
    DEAD_LETTER_WINDOW_RECORDS_MAX,
    DEAD_LETTERS_IN_A_ROW_MAX,
    DETACHED_SECONDS_MAX,
    IN_FLIGHT_BYTES_MAX,
    RETRY_BUDGET_PER_SECOND,
    RETRY_BUDGET_SHARE,
)

if TYPE_CHECKING:
    from braid.client.records.where import Where

ORDERINGS: Final = ("none", "key", "partition")
OWNERSHIPS: Final = ("at_least_once", "exclusive")
FENCINGS: Final = (None, "generation", "none")

Start = str | datetime


@dataclass(frozen=True, slots=True)
class DeadLetterLimits:
    """When a consumer stops with a lane instead of dead-lettering more of it: so much at once is no record's fault.

    Nothing is lost: records wait, with the attempts they had, until `Consumer.resume`, a restart or another member.

    Attributes:
        in_a_row: So many records may be dead-lettered one after the other, none being done in between.
        ratio: This part of the last `window` records may be; 1.0 leaves it to `in_a_row`.
        window: Settled records that `ratio` is taken of.
    """

    in_a_row: int = DEAD_LETTERS_IN_A_ROW_MAX
    ratio: float = DEAD_LETTER_RATIO_MAX
    window: int = DEAD_LETTER_WINDOW_RECORDS

    def __post_init__(self) -> None:
        if self.in_a_row < 1:
            raise Invalid("must be at least 1", field="retry.dead_letters.in_a_row")
        if not 0 < self.ratio <= 1:
            raise Invalid("must be above 0 and at most 1", field="retry.dead_letters.ratio")
        if not 1 <= self.window <= DEAD_LETTER_WINDOW_RECORDS_MAX:
            raise Invalid(f"must be within 1 and {DEAD_LETTER_WINDOW_RECORDS_MAX}", field="retry.dead_letters.window")


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many retries a lane may cost at one consumer, so that a dependency that is away is not asked ever more often.

    A retry that fails spends a token; one that succeeds gives it back. Without tokens records wait longer for their
    next attempt: none is lost, and none dead-lettered for it. Records that the application brings back itself
    (`Record.retry`) wait as long as it said.

    Attributes:
        share: Tokens for each record that is done.
        per_second: Tokens for each second, whatever is done; ten seconds of them may be saved.
    """

    share: float = RETRY_BUDGET_SHARE
    per_second: float = RETRY_BUDGET_PER_SECOND

    def __post_init__(self) -> None:
        if self.share < 0:
            raise Invalid("must not be negative", field="retry.budget.share")
        if self.per_second <= 0:
            raise Invalid("must be positive: else nothing ends a wait", field="retry.budget.per_second")


@dataclass(frozen=True, slots=True)
class Circuit:
    """When a consumer stops with a lane because of what is not its records' fault, and how it goes on by itself.

    It stops once `ratio` of what was handled over `seconds`, and at least `failures`, raised `Retryable` or an error
    named in `Retry.retryable`. From then on one record at a time is tried: as soon as one is done, the lane goes on.

    Attributes:
        ratio: Of the records handled.
        failures: So many at least.
        seconds: For so long at least.
        probe_seconds: First and longest wait between two tries; it doubles in between, with jitter.
    """

    ratio: float = CIRCUIT_RATIO
    failures: int = CIRCUIT_FAILURES
    seconds: float = CIRCUIT_SECONDS
    probe_seconds: tuple[float, float] = CIRCUIT_PROBE_SECONDS

    def __post_init__(self) -> None:
        low, high = self.probe_seconds
        if not 0 < self.ratio <= 1:
            raise Invalid("must be above 0 and at most 1", field="retry.circuit.ratio")
        if self.failures < 1:
            raise Invalid("must be at least 1", field="retry.circuit.failures")
        if self.seconds < 0:
            raise Invalid("must not be negative", field="retry.circuit.seconds")
        if not 0 < low <= high:
            raise Invalid("must be 0 < first ≤ longest", field="retry.circuit.probe_seconds")


@dataclass(frozen=True, slots=True)
class Retry:
    """How a record is tried again after its handler raised.

    Attributes:
        max_attempts: Attempts in all; after the last one the record is dead-lettered.
        backoff_seconds: First and longest wait between attempts; it doubles in between, with jitter.
        dead_letters: How many records may be dead-lettered before the consumer stops with their lane; None for any.
        permanent: Errors that another attempt would not mend: their records are dead-lettered at once.
        retryable: Errors that are not the record's fault (its database is away): it is tried again however often, and
            never dead-lettered for them, nor are those attempts. Of the classes named here and above, the one nearest
            to an error's own counts; an error under none of them is tried `max_attempts` times. `braid.Retryable` and
            `braid.Reject`, raised by a handler, stand in the same order of classes.
        budget: How many retries a lane may cost; None for any.
        circuit: When to stop with a lane because of errors that are not its records' fault; None for never.
    """

    max_attempts: int = 5
    backoff_seconds: tuple[float, float] = (0.1, 30.0)
    dead_letters: DeadLetterLimits | None = DeadLetterLimits()
    permanent: tuple[type[BaseException], ...] = ()
    retryable: tuple[type[BaseException], ...] = ()
    budget: RetryBudget | None = RetryBudget()
    circuit: Circuit | None = Circuit()

    def __post_init__(self) -> None:
        for name, classes in (("permanent", self.permanent), ("retryable", self.retryable)):
            check_classes(classes, f"retry.{name}")
        if both := set(self.permanent) & set(self.retryable):
            names = ", ".join(sorted(each.__name__ for each in both))
            raise Invalid(f"{names}: named as permanent too", field="retry.retryable", remedy="name each class once")
        low, high = self.backoff_seconds
        if self.max_attempts < 1:
            raise Invalid("must be at least 1", field="retry.max_attempts")
        if not 0 <= low <= high:
            raise Invalid("must be 0 ≤ first ≤ longest", field="retry.backoff_seconds")

    def delay_seconds(self, attempt: int, jitter: float) -> float:
        """The wait after the attempt-th failure (1 for the first); `jitter` in [0, 1) spreads it over [½, 1]."""
        low, high = self.backoff_seconds
        return float(min(high, low * 2 ** min(attempt - 1, 32))) * (0.5 + jitter / 2)


def check_classes(classes: object, field: str) -> None:
    """Raises `Invalid` for anything but a tuple of classes of errors."""
    if not isinstance(classes, tuple) or not all(isinstance(x, type) and issubclass(x, BaseException) for x in classes):
        raise Invalid(f"{classes!r} is no tuple of errors", field=field, remedy="for example (ValueError,)")


@dataclass(frozen=True, slots=True)
class Backlog:
    """When a consumer works at the head of a log at once, and on what lies behind it beside that.

    Attributes:
        split_after_seconds: A lease whose oldest record in hand is so old is split, once it is far enough behind.
        share: What the backlog may have of its lane's memory, turns and handlers; above 0, below 1.
        relaxed: Records of a key may keep their order within the backlog and within what is new alone.
    """

    split_after_seconds: float
    share: float = BACKLOG_PERMILLE_DEFAULT / 1_000
    relaxed: bool = False

    def __post_init__(self) -> None:
        if not self.split_after_seconds > 0:
            raise Invalid("must be positive", field="backlog.split_after_seconds")
        if not 0 < self.share < 1:
            raise Invalid("must be above 0 and below 1", field="backlog.share")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of one consumer, as `Mesh.consumer` takes them.

    Attributes:
        streams: Names of the streams to consume.
        group: The consuming application; its members share the streams' partitions.
        start: Where a group without progress begins: `earliest`, `latest` or a datetime with a time zone.
        lanes: Reserved shares by lane; lanes not named are not consumed. None: every lane but `dlq`.
        ordering: Which records of a partition may be worked on at once: `none`, all; `key`, those of unlike keys,
            so that each key's are handled one after another; `partition`, one. A record that is retried holds up
            those behind it. With an order, records are taken one by one or as batches, not both.
        concurrency: Handlers at once in `run`. They are divided between lanes by their shares; those of a lane that has
            nothing for them work for the others, but one of each, so that no lane waits for another's slow handlers.
            By lane: each of `lanes` has so many, and never more, however idle the others are.
        max_concurrency: Handlers at once that the assigner may ask for while it answers lag (`braid set responses`).
            None: no more than `concurrency`. Only where that is one number.
        retry: What follows when a handler raises.
        ownership: `at_least_once`, or `exclusive`: two live holders of a partition never overlap. Handlers of `run`
            are cancelled when their lease ends; a lease with records that are not settled is not given back but
            left to run out, and a process that still works on one then ends (status 70).
        fencing: Who refuses what a former holder commits that was frozen: `generation`, its cluster; `none`,
            nobody. None: what the group has, and `generation` for a new one.
        lease_seconds: A member that is not heard of for so long loses its leases.
        commit_interval_seconds: Longest time between two commits while there is something to commit.
        quarantine_bytes: The dead letter of a batch that nobody can decode has so many bytes of it, as they lie in the
            log, as its value; none when 0.
        dead_letter_tracebacks: What a dead letter has of its error's traceback: `full`; `cut`, first and last lines;
            `hash`, a digest that like failures share; or `none`.
        max_in_flight_bytes: Bound on fetched records that are not done; then fetching waits. Beside it lies what was
            fetched ahead and is not decoded yet: 16 MiB of a lane and cluster, or one answer of each of its brokers.
        detached_seconds_max: A member of an `at_least_once` group that reaches no assigner works on for so long,
            beside whoever was given its leases meanwhile; then it stops until it reaches one.
        on_assigned: Called with the names of new leases.
        on_revoked: Called with the names of leases asked back or lost.
        where: Which records are handed out; the others count as done, unseen. None: all.
        handler_timeout_seconds: A handler that takes longer is cancelled, and has failed with `HandlerTimeout`. One
            that cannot be ended keeps its slot until it ends; its record is tried again meanwhile, save where an
            order or exclusive ownership is promised. None: handlers may take as long as they like.
        cancel_at_loss: Cancels a handler whose lease is lost in an `at_least_once` group too: somebody else does
            its work again. Else it ends by itself, and may ask `record.lease.lost`.
        backlog: When a lease that is far behind is worked on at its head too, as by `braid split`; None: never unasked.
    """

    streams: tuple[str, ...]
    group: str
    start: Start = "earliest"
    lanes: Mapping[str, int] = field(default_factory=dict)
    ordering: str = "none"
    concurrency: int | Mapping[str, int] = 64
    retry: Retry = field(default_factory=Retry)
    ownership: str = "at_least_once"
    fencing: str | None = None
    lease_seconds: float = LEASE_MS_DEFAULT / 1000
    commit_interval_seconds: float = COMMIT_INTERVAL_SECONDS
    quarantine_bytes: int = 0
    dead_letter_tracebacks: str = TRACEBACKS[0]
    max_in_flight_bytes: int = IN_FLIGHT_BYTES_MAX
    detached_seconds_max: float = DETACHED_SECONDS_MAX
    on_assigned: Callable[[list[str]], None] | None = None
    on_revoked: Callable[[list[str]], None] | None = None
    where: "Where | None" = None
    handler_timeout_seconds: float | None = None
    cancel_at_loss: bool = False
    backlog: Backlog | None = None
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        if not self.streams:
            raise Invalid("name at least one stream", field="streams")
        for stream in self.streams:
            check_name(stream, "streams")
        check_name(self.group, "group")
        self._check_start()
        for lane, share in self.lanes.items():
            check_name(lane, "lanes")
            if share < 1:
                raise Invalid("a lane's share must be at least 1", field=f"lanes.{lane}")
        self._check_choices()

    def _check_start(self) -> None:
        if isinstance(self.start, datetime):
            if self.start.tzinfo is None:
                raise Invalid("a datetime needs a time zone", field="start")
        elif self.start not in ("earliest", "latest"):
            raise Invalid(f"{self.start!r} is no start", field="start", remedy='use "earliest", "latest" or a datetime')

    def _check_choices(self) -> None:
        if self.ordering not in ORDERINGS:
            raise Invalid(f"{self.ordering!r} is unknown", field="ordering", remedy=f"use one of {ORDERINGS}")
        if self.ownership not in OWNERSHIPS:
            raise Invalid(f"{self.ownership!r} is unknown", field="ownership", remedy=f"use one of {OWNERSHIPS}")
        if self.fencing not in FENCINGS:
            raise Invalid(f"{self.fencing!r} is unknown", field="fencing", remedy=f"use one of {FENCINGS}")
        if self.backlog is not None and self.ordering != "none" and not self.backlog.relaxed:
            raise Invalid(
                f"a split keeps the order of {self.ordering!r} within each of its parts alone",
                field="backlog",
                remedy="allow that with relaxed=True, or leave backlog out",
            )
        self._check_concurrency()
        lease_ms = self.lease_seconds * 1000
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise Invalid(f"must be within {LEASE_MS_MIN / 1000} and {LEASE_MS_MAX / 1000}", field="lease_seconds")
        if self.commit_interval_seconds <= 0:
            raise Invalid("must be positive", field="commit_interval_seconds")
        if self.quarantine_bytes < 0:
            raise Invalid("must not be negative", field="quarantine_bytes")
        check_tracebacks(self.dead_letter_tracebacks, "dead_letter_tracebacks")
        if self.max_in_flight_bytes < 1:
            raise Invalid("must be positive", field="max_in_flight_bytes")
        if self.detached_seconds_max <= 0:
            raise Invalid("must be positive", field="detached_seconds_max")
        if self.handler_timeout_seconds is not None and self.handler_timeout_seconds <= 0:
            raise Invalid("must be positive, or None", field="handler_timeout_seconds")

    def _check_concurrency(self) -> None:
        if isinstance(self.concurrency, int):
            if self.concurrency < 1:
                raise Invalid("must be at least 1", field="concurrency")
            if self.max_concurrency is not None and self.max_concurrency < self.concurrency:
                raise Invalid(f"is less than {self.concurrency}, the concurrency", field="max_concurrency")
            return
        if self.max_concurrency is not None:
            remedy = "give concurrency as one number, or leave it out"
            raise Invalid("handlers by lane are never more than they are", field="max_concurrency", remedy=remedy)
        if unlike := sorted(set(self.concurrency) ^ set(self.lanes)):
            raise Invalid(
                f"handlers by lane are for the lanes that are consumed; {', '.join(unlike)} is not named in both",
                field="concurrency",
                remedy="name the same lanes in lanes and concurrency",
            )
        for lane, count in self.concurrency.items():
            if count < 1:
                raise Invalid("must be at least 1", field=f"concurrency.{lane}")

    @property
    def handlers(self) -> int:
        """How many run at once in `run`, over all lanes."""
        return self.concurrency if isinstance(self.concurrency, int) else sum(self.concurrency.values())

    @property
    def handlers_max(self) -> int:
        """How many the assigner may ask for."""
        return self.max_concurrency or self.handlers

    @property
    def handlers_by_lane(self) -> Mapping[str, int]:
        """How many each lane has for itself; empty where they are divided by shares."""
        return {} if isinstance(self.concurrency, int) else self.concurrency


def stream_names(streams: Sequence[str]) -> tuple[str, ...]:
    """Returns the streams that a consumer names, each once. Raises `Invalid` for a text in place of a list."""
    if isinstance(streams, str):
        raise Invalid("is one string", field="streams", remedy=f'give a list: ["{streams}"]')
    return tuple(dict.fromkeys(streams))
