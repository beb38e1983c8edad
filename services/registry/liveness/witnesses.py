"""Reports on clusters from hosts whose producers and consumers reach them, or do not. No I/O.

A host is one witness, however many of its processes report: what ails one of them, or its network, ails it alone. A
principal that was verified is one witness, too, whatever hosts it names: what most of its hosts report counts for it.
Nobody reports for another's host. The last report counts, and only for a while. A complaint of an SDK that takes a
cluster which refuses it for one that is away counts only where the host was seen to reach the cluster: else its
password may be wrong. Reports of a host's producers and of its consumers are kept apart: an answer to a fetch proves
less than one to an append, so where its producers reported anything, that counts. Times are on the clock that stands
while the registry is late (`lateness.py`).
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf
from typing import NamedTuple

from braid.kernel.limits.registry.health import (
    COMPLAINT_PAUSE_SECONDS,
    SEND_REPORT_SECONDS,
    SEND_REPORTERS_MIN,
    SEND_REPORTERS_SHARE,
    WITNESS_HOSTS_MAX,
    WITNESSES_KEPT_MAX,
)


class Use(Enum):
    """How a reporting process uses a cluster: it writes or reads."""

    WRITES = "writes"
    READS = "reads"


class Users(NamedTuple):
    """How many witnesses use a cluster; how many of them write there."""

    hosts: int
    writing: int


class Reporter(NamedTuple):
    """A host as it names itself, and its principal if that was verified; else ''."""

    host: str
    principal: str = ""


def users_of(writing: AbstractSet[Reporter], reading: AbstractSet[Reporter]) -> Users:
    """How many witnesses there are among those who write to a cluster and those who read it."""
    witnesses = _witnesses({*writing, *reading})
    return Users(len({*witnesses.values()}), len({witnesses[reporter] for reporter in writing}))


def _witnesses(reporters: Collection[Reporter]) -> Mapping[Reporter, Reporter]:
    """By reporter, the witness that it is a part of: a principal that reports from several hosts, else its host."""
    hosts: dict[str, set[str]] = {}
    for reporter in reporters:
        hosts.setdefault(reporter.principal, set()).add(reporter.host)
    spread = {principal for principal, named in hosts.items() if principal and len(named) > 1}
    joint = {each: Reporter("", each.principal) for each in reporters if each.principal in spread}
    return {each: joint.get(each, Reporter(each.host)) for each in reporters}


@dataclass(slots=True)
class HostReports:
    """A host's latest reports on a cluster: when it saw an answer, and when it complained.

    Attributes:
        complains_since: The first complaint of the present run: no long pause and no answer in between.
        complained_at: The last complaint of that run.
        credible_at: The newest complaint that is not about refused access.
    """

    reached_at: float = -inf
    complained_at: float = -inf
    complains_since: float = -inf
    credible_at: float = -inf

    @property
    def newest(self) -> float:
        """The time of its latest report."""
        return max(self.reached_at, self.complained_at)

    def counts(self, now: float) -> bool:
        """Whether the complaint is about the cluster, not about the host's own access."""
        return self.reached_at > -inf or now - self.credible_at <= COMPLAINT_PAUSE_SECONDS

    def complain(self, now: float, *, credible: bool = True) -> None:
        """Takes one more complaint. After a long pause a new run begins: nothing is known about the time between."""
        if credible:
            self.credible_at = max(self.credible_at, now)
        if now - self.complained_at > COMPLAINT_PAUSE_SECONDS or self.reached_at >= self.complained_at:
            self.complains_since = now
        self.complained_at = max(self.complained_at, now)

    def reach(self, at: float) -> None:
        """Takes one more answer; it ends the run of complaints."""
        self.reached_at = max(self.reached_at, at)
        if self.complains_since <= at:
            self.complains_since = self.complained_at


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """All reports on a cluster at one instant.

    Attributes:
        hosts: Number of hosts that use the cluster.
        reaching: How many of them saw an answer lately.
        failing: How many complained lately, and saw no answer.
        reached_at: The newest answer that any of them saw; -inf for none.
        failing_since: The earliest among the last complaints of failing hosts; inf for none.
        complaining_since: Since when one of them has complained, short pauses aside, without an answer; inf for none.
        hosts_min: Number of hosts that must fail to outweigh the registry's probe; if fewer use the cluster,
        share_min: the share of them that must fail.
        principals: How many of those that fail are verified principals.
    """

    hosts: int = 0
    reaching: int = 0
    failing: int = 0
    reached_at: float = -inf
    failing_since: float = inf
    complaining_since: float = inf
    hosts_min: float = SEND_REPORTERS_MIN
    share_min: float = SEND_REPORTERS_SHARE
    principals: int = 0

    @property
    def sole(self) -> bool:
        """Whether a single host fails, and too few use the cluster for others to confirm it."""
        return self.failing == 1 and self.hosts < self.hosts_min

    @property
    def condemns(self) -> bool:
        """Whether enough hosts fail that the cluster is unwell although the registry reaches it."""
        needed = self.hosts_min if self.hosts >= self.hosts_min else max(1, ceil(self.share_min * self.hosts))
        return self.failing >= needed and self.failing > self.reaching

    @property
    def acquits(self) -> bool:
        """Whether the cluster is alive although the registry does not reach it."""
        return self.reaching > 0 and self.reaching >= self.failing


NO_REPORTS = ReportCounts()


class ClusterReports(NamedTuple):
    """Reports from all hosts that use a cluster, each counted once; and separately from those that write to it."""

    everyone: ReportCounts
    writers: ReportCounts

    def by(self, hosts_min: float, share_min: float) -> "ClusterReports":
        """The same reports, weighed by a cluster's own thresholds."""
        return ClusterReports(*[replace(each, hosts_min=hosts_min, share_min=share_min) for each in self])


SILENCE = ClusterReports(NO_REPORTS, NO_REPORTS)


@dataclass(slots=True)
class Witnesses:
    """All reports of hosts in a term of leadership."""

    _reports: dict[str, dict[Reporter, dict[Use, HostReports]]] = field(default_factory=dict)

    def complains(
        self, cluster: str, reporter: Reporter | str, now: float, use: Use = Use.WRITES, *, credible: bool = True
    ) -> None:
        """Somebody does not reach a cluster; not `credible` where it may only be refused there."""
        if (report := self._reports_of(cluster, reporter, use)) is not None:
            report.complain(now, credible=credible)

    def reached(self, cluster: str, reporter: Reporter | str, at: float, use: Use = Use.WRITES) -> None:
        """Somebody saw an answer of a cluster."""
        if (report := self._reports_of(cluster, reporter, use)) is not None:
            report.reach(at)

    def complained(self, cluster: str, now: float) -> bool:
        """Whether any host complained lately."""
        reports = [each for by_use in self._reports.get(cluster, {}).values() for each in by_use.values()]
        return any(now - each.complained_at <= SEND_REPORT_SECONDS for each in reports)

    def heard(self, cluster: str, users: Users, now: float) -> ClusterReports:
        """The reports on a cluster with these users; old ones are forgotten."""
        kept = {
            reporter: reports
            for reporter, reports in self._reports.get(cluster, {}).items()
            if any(now - report.newest <= COMPLAINT_PAUSE_SECONDS for report in reports.values())
        }
        self._reports[cluster] = kept
        uses = {each: _counted_use(reports, now) for each, reports in kept.items()}
        everyone = {each: reports[use] for each, reports in kept.items() if (use := uses[each]) is not None}
        writers = {each: reports[Use.WRITES] for each, reports in kept.items() if uses[each] is Use.WRITES}
        return ClusterReports(
            _counted(_joint(everyone, now), users.hosts, now), _counted(_joint(writers, now), users.writing, now)
        )

    def _reports_of(self, cluster: str, reporter: Reporter | str, use: Use) -> HostReports | None:
        known = self._reports.setdefault(cluster, {})
        one = Reporter(reporter) if isinstance(reporter, str) else reporter
        if one not in known and not _has_room(known, one):
            return None
        return known.setdefault(one, {}).setdefault(use, HostReports())


class _WitnessReports(NamedTuple):
    """Reports of one witness, and whether it is a principal that was verified."""

    report: HostReports
    proved: bool


def _has_room(reporters: Collection[Reporter], newcomer: Reporter) -> bool:
    """Whether one more is kept: nobody's hosts may take the room of everybody's."""
    if len(reporters) >= WITNESSES_KEPT_MAX:
        return False
    if not newcomer.principal:
        return True
    return sum(each.principal == newcomer.principal for each in reporters) < WITNESS_HOSTS_MAX


def _joint(reports: Mapping[Reporter, HostReports], now: float) -> list[_WitnessReports]:
    """The reports of each witness: what most of its reporters say; an answer where as many say that as a failure."""
    witnesses, said = _witnesses(reports), dict[Reporter, list[HostReports]]()
    unproved = {witnesses[reporter] for reporter in reports if not reporter.principal}
    for reporter, report in reports.items():
        said.setdefault(witnesses[reporter], []).append(report)
    return [_WitnessReports(_most(each, now), witness not in unproved) for witness, each in said.items()]


def _most(reports: list[HostReports], now: float) -> HostReports:
    failing = [report for report in reports if now - report.reached_at > SEND_REPORT_SECONDS]
    if 2 * len(failing) <= len(reports):
        return max(reports, key=lambda report: report.reached_at)
    since = min(report.complains_since for report in failing)
    return replace(min(failing, key=lambda report: report.complained_at), complains_since=since)


def _counted_use(reports: Mapping[Use, HostReports], now: float) -> Use | None:
    """Whose reports count for a host: its producers' if they reported lately, else its consumers'; None if nobody's."""
    fresh = {use: each for use, each in reports.items() if now - each.newest <= SEND_REPORT_SECONDS}
    lately = [use for use, each in fresh.items() if each.counts(now)]
    return Use.WRITES if Use.WRITES in lately else next(iter(lately), None)


def _counted(said: list[_WitnessReports], hosts: int, now: float) -> ReportCounts:
    """Combines the reports of hosts, out of this many, into one `ReportCounts`."""
    reports = [each.report for each in said]
    reaching = [report for report in reports if now - report.reached_at <= SEND_REPORT_SECONDS]
    failing = [report for report in reports if now - report.reached_at > SEND_REPORT_SECONDS]
    return ReportCounts(
        max(hosts, len(reports)),
        len(reaching),
        len(failing),
        max((report.reached_at for report in reaching), default=-inf),
        min((report.complained_at for report in failing), default=inf),
        min((report.complains_since for report in failing), default=inf),
        principals=sum(each.proved for each in said if now - each.report.reached_at > SEND_REPORT_SECONDS),
    )
