"""What a replica of the quorum reports to Prometheus: the metrics of KIP-595 and KIP-853 by name, after
`tierfetch_raft_`.

| document | here |
|---|---|
| current-leader, current-epoch, current-vote | gauges; -1 for none |
| current-state | one sample for each state, 1 where the replica is in it; an observer's has its own name |
| log-end-offset, log-end-epoch, high-watermark | gauges |
| number-unknown-voter-connections | voters whose endpoint is not known |
| number-of-voters, number-of-observers | gauges; observers are known to the leader alone |
| uncommitted-voter-change, ignored-static-voters | gauges, 1 for yes |
| election-latency, commit-latency | histograms of seconds, in place of avg and max |
| fetch-records-rate, append-records-rate | counters: the rate is the reader's to take |
| poll-idle-ratio-avg | share of the time since the last look in which nothing was decided or applied |
| fsync and apply latency | histograms of seconds |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from prometheus_client import Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..light_dataclass import dataclass
from .core.replica import RaftStatus
from .core.state import RaftState
from .core.voters import KRAFT_VERSION_STATIC

PREFIX: Final = "tierfetch_raft_"
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of all latencies."""
OBSERVER: Final = "observer"


class LogEnd(Protocol):
    """The end of the log as far as it is written."""

    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int: ...


class QuorumView(Protocol):
    """What metrics need of a replica."""

    @property
    def status(self) -> RaftStatus: ...
    @property
    def log(self) -> LogEnd: ...
    @property
    def observers(self) -> int: ...
    @property
    def has_static_voters(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    documentation: str
    value: Callable[[QuorumView], float]


_GAUGES: Final = (
    _Gauge(
        "current_leader",
        "Node id of the leader, -1 if it is not known.",
        lambda of: _id(of.status.leader_and_epoch.leader_id),
    ),
    _Gauge("current_epoch", "Leader epoch of the quorum.", lambda of: of.status.leader_and_epoch.epoch),
    _Gauge(
        "current_vote",
        "The voter that got this replica's vote in the epoch, -1 if none did.",
        lambda of: _id(of.status.voted_id),
    ),
    _Gauge("log_end_offset", "Offset of the next record of the metadata log.", lambda of: of.log.log_end_offset),
    _Gauge("log_end_epoch", "Leader epoch of the last record.", lambda of: of.log.last_epoch),
    _Gauge("high_watermark", "Everything below is committed.", lambda of: of.status.high_watermark),
    _Gauge(
        "number_unknown_voter_connections",
        "Voters whose endpoint is not known.",
        lambda of: sum(not node.endpoints for node in of.status.voters.voters),
    ),
    _Gauge("number_of_voters", "Voters in effect, committed or not.", lambda of: len(of.status.voters.voters)),
    _Gauge("number_of_observers", "Observers with a live session, if this replica leads.", lambda of: of.observers),
    _Gauge(
        "uncommitted_voter_change",
        "1 while the voters in effect are not committed.",
        lambda of: of.status.voters.offset >= of.status.high_watermark,
    ),
    _Gauge(
        "ignored_static_voters",
        "1 where controller.quorum.voters is set, and the voters are in the log.",
        lambda of: of.has_static_voters and of.status.voters.kraft_version > KRAFT_VERSION_STATIC,
    ),
)


def _id(value: int | None) -> int:
    return -1 if value is None else value


class QuorumMetrics:
    """Counted where it happens; `now_s` is the event loop's clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.appended_records = 0
        self.fetched_records = 0
        self.elections = 0
        self.snapshot_errors = 0
        self.busy_s = 0.0
        self.commit = _latency("commit_latency_seconds", "From an append to the high watermark after it.")
        self.election = _latency("election_latency_seconds", "From standing for election to the next leader.")
        self.fsync = _latency("fsync_latency_seconds", "One flush of the metadata log.")
        self.apply = _latency("apply_latency_seconds", "One committed batch in the listeners.")
        self._looked_at_s = now_s()
        self._busy_then_s = 0.0

    def poll_idle_ratio(self) -> float:
        """Since the last call."""
        now_s, busy_s = self.now_s(), self.busy_s
        elapsed_s, used_s = now_s - self._looked_at_s, busy_s - self._busy_then_s
        self._looked_at_s, self._busy_then_s = now_s, busy_s
        return 1.0 if elapsed_s <= 0 else max(0.0, 1.0 - used_s / elapsed_s)

    def families(self, view: QuorumView) -> Iterator[Metric]:
        """All of them, each made when it is asked for."""
        for gauge in _GAUGES:
            yield GaugeMetricFamily(PREFIX + gauge.name, gauge.documentation, value=gauge.value(view))
        yield _states(view)
        yield CounterMetricFamily(
            f"{PREFIX}append_records", "Records appended as the leader.", value=self.appended_records
        )
        yield CounterMetricFamily(
            f"{PREFIX}fetch_records", "Records fetched from the leader.", value=self.fetched_records
        )
        yield CounterMetricFamily(f"{PREFIX}elections", "Elections this replica stood for.", value=self.elections)
        yield CounterMetricFamily(
            f"{PREFIX}snapshot_errors", "Snapshots that could not be cut.", value=self.snapshot_errors
        )
        yield GaugeMetricFamily(
            f"{PREFIX}poll_idle_ratio", "Share of the time in which nothing was done.", value=self.poll_idle_ratio()
        )
        for histogram in (self.commit, self.election, self.fsync, self.apply):
            yield from histogram.collect()


def _latency(name: str, documentation: str) -> Histogram:
    return Histogram(PREFIX + name, documentation, buckets=SECONDS, registry=None)


def _states(view: QuorumView) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}current_state", "1 for the state it is in.", labels=["state"])
    current = view.status.state.value if view.status.is_voter else OBSERVER
    for name in (*(state.value for state in RaftState), OBSERVER):
        family.add_metric([name], name == current)
    return family
