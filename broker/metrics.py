"""What a broker reports to Prometheus (docs/metrics.md lists it). Values are read where they live, at each scrape.

Families of partitions have a sample for each; totals over all partitions have one, and are all that is left with
`metrics.partitions=none`. A family comes in parts of `PART_SAMPLES` samples at most. Each part is made in one go,
without an `await`: its samples are of one moment, those of the next part may be of a later one. Only requests are
counted here, because nobody else does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..fetcher import FollowedReplica, ReplicaProgress, ReplicaState
from ..fetcher.core import LeaderReplicas
from ..light_dataclass import dataclass
from ..log.keeper import LogManager
from ..protocol import ApiKey, TopicIdPartition, TopicPartition
from ..protocol.messages import Message
from ..protocol.net import Handler, RequestContext, Server
from ..rlm import CopyLag, RemoteLogCounters
from .environment import NodeDisk
from .groups.coordinator import GroupCoordinator
from .groups.core.consumer.state import ConsumerGroupState
from .groups.core.group_state import GroupState
from .groups.core.share.state import ShareGroupState
from .replicas.directory_moves import DirectoryMoves
from .replicas.hosted_partitions import HostedPartitions
from .replicas.partition import Partition
from .replicas.thin_replicas import ThinReplicas
from .replicas.warmer import WarmingProgress

T = TypeVar("T")
U = TypeVar("U")

PARTITION: Final = ("topic", "partition")
PART_SAMPLES: Final = 500
"""Samples of one part of a family: some 10 ms with their text."""
REQUEST_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets of request times."""


@dataclass(frozen=True, slots=True)
class Quantity(Generic[T]):
    """A metric that is a number of each `T`; None gives no sample."""

    name: str
    documentation: str
    value: Callable[[T], float | None]


PARTITIONS: Final[tuple[Quantity[Partition], ...]] = (
    Quantity(
        "tierfetch_log_start_offset", "First offset, local or in the tier.", lambda of: of.log.state.log_start_offset
    ),
    Quantity(
        "tierfetch_local_log_start_offset",
        "First local offset.",
        lambda of: of.log.state.offsets.local_log_start_offset,
    ),
    Quantity("tierfetch_log_end_offset", "Offset of the next record.", lambda of: of.log.state.log_end_offset),
    Quantity("tierfetch_high_watermark", "Everything below is committed.", lambda of: of.log.state.high_watermark),
    Quantity(
        "tierfetch_last_stable_offset",
        "Everything below is committed and of no open transaction.",
        lambda of: of.log.state.offsets.last_stable_offset,
    ),
    Quantity("tierfetch_log_size_bytes", "Size of the local segments.", lambda of: of.log.state.segments.size_bytes),
    Quantity("tierfetch_leader_epoch", "Leader epoch, as the cluster has it.", lambda of: of.leader_epoch),
    Quantity("tierfetch_is_leader", "1 where this broker leads, else 0.", lambda of: of.leadership is not None),
)
LED: Final[tuple[Quantity[LeaderReplicas], ...]] = (
    Quantity("tierfetch_isr_size", "In-sync replicas, as committed.", lambda of: len(of.isr)),
    Quantity(
        "tierfetch_under_replicated",
        "1 if a replica is not in the ISR, else 0.",
        lambda of: len(of.isr) < len(of.followers) + 1,
    ),
    Quantity(
        "tierfetch_under_min_isr", "1 if the ISR is below min.insync.replicas, else 0.", lambda of: of.is_under_min_isr
    ),
)
COPY_LAGS: Final[tuple[Quantity[CopyLag], ...]] = (
    Quantity("tierfetch_remote_copy_lag_segments", "Closed segments that are not in the tier.", lambda of: of.segments),
    Quantity("tierfetch_remote_copy_lag_bytes", "Size of these segments.", lambda of: of.bytes),
    Quantity(
        "tierfetch_remote_copy_held_up",
        "1 if the first of these segments is damaged, and holds up all others, else 0.",
        lambda of: of.is_held_up,
    ),
    Quantity(
        "tierfetch_remote_copy_transaction_seconds",
        "How long an open transaction has held back closed segments, 0 if none does.",
        lambda of: of.transaction_ms / 1000,
    ),
)
FOLLOWED: Final[tuple[Quantity[ReplicaProgress], ...]] = (
    Quantity(
        "tierfetch_replica_first_fetch_timestamp_seconds",
        "When the replica first asked its leader for records.",
        lambda of: of.first_fetch_at,
    ),
    Quantity(
        "tierfetch_replica_bootstrap_end_timestamp_seconds",
        "When it was settled where the replica continues.",
        lambda of: of.bootstrap_ended_at,
    ),
)
ALL_PARTITIONS: Final[tuple[Quantity[Partition], ...]] = (
    Quantity("tierfetch_partitions", "Hosted replicas.", lambda of: 1),
    Quantity("tierfetch_leaders", "Partitions that this broker leads.", lambda of: of.leadership is not None),
    Quantity(
        "tierfetch_local_log_bytes",
        "Size of the local segments of all replicas.",
        lambda of: of.log.state.segments.size_bytes,
    ),
)
ALL_LED: Final[tuple[Quantity[LeaderReplicas], ...]] = (
    Quantity(
        "tierfetch_under_replicated_partitions",
        "Led partitions with a replica that is not in the ISR.",
        lambda of: len(of.isr) < len(of.followers) + 1,
    ),
    Quantity(
        "tierfetch_under_min_isr_partitions",
        "Led partitions whose ISR is below min.insync.replicas.",
        lambda of: of.is_under_min_isr,
    ),
)
ALL_COPY_LAGS: Final[tuple[Quantity[CopyLag], ...]] = (
    Quantity("tierfetch_remote_copy_pending_segments", "Closed segments not in the tier.", lambda of: of.segments),
    Quantity("tierfetch_remote_copy_pending_bytes", "Size of these segments.", lambda of: of.bytes),
    Quantity(
        "tierfetch_remote_copy_held_up_partitions", "Partitions with a damaged first one.", lambda of: of.is_held_up
    ),
    Quantity(
        "tierfetch_remote_copy_hanging_transactions",
        "Partitions whose copies an open transaction holds back for longer than a coordinator lets it be open.",
        lambda of: of.is_transaction_hanging,
    ),
)
TIER_TOTALS: Final[tuple[Quantity[RemoteLogCounters], ...]] = (
    Quantity("tierfetch_remote_copied_segments", "Segments copied to the tier.", lambda of: of.copied_segments),
    Quantity("tierfetch_remote_copied_bytes", "Bytes of these segments.", lambda of: of.copied_bytes),
    Quantity("tierfetch_remote_fetch_requests", "Reads of the tier for consumers.", lambda of: of.fetch_requests),
    Quantity("tierfetch_remote_fetched_bytes", "Bytes of these reads.", lambda of: of.fetched_bytes),
    Quantity(
        "tierfetch_remote_fetched_ahead_bytes", "Bytes read ahead of consumers.", lambda of: of.fetched_ahead_bytes
    ),
    Quantity("tierfetch_remote_guessed_bytes", "Bytes asked for beside an index.", lambda of: of.guessed_bytes),
    Quantity(
        "tierfetch_remote_wrongly_guessed_bytes",
        "Bytes asked for beside an index that it did not lead to.",
        lambda of: of.wrongly_guessed_bytes,
    ),
    Quantity("tierfetch_remote_fetch_errors", "Reads of the tier that failed.", lambda of: of.fetch_errors),
    Quantity("tierfetch_remote_damaged_reads", "Reads that found the tier's bytes wrong.", lambda of: of.damaged_reads),
    Quantity(
        "tierfetch_remote_disproven_segments",
        "Segments whose object was found absent or of another size.",
        lambda of: of.disproven_segments,
    ),
    Quantity("tierfetch_remote_index_rebuilds", "Indexes built from their log.", lambda of: of.rebuilt_indexes),
)


class FollowedReplicas(Protocol):
    """The replicas that follow a leader: `FetcherPool`, or what a test makes up."""

    def replicas(self) -> Iterable[tuple[TopicIdPartition, FollowedReplica]]: ...


class TierStatus(Protocol):
    """The numbers of a remote log manager."""

    @property
    def counters(self) -> RemoteLogCounters: ...

    def copy_lag(self, partition: TopicIdPartition) -> CopyLag: ...

    def partitions_without_ledger(self) -> int: ...


class RequestTimes:
    """Observes how long the handlers of each API take: with the time that a Fetch waits for data and a Produce for
    followers, without the time to send the response.
    """

    def __init__(self) -> None:
        self.histogram = Histogram(
            "tierfetch_request_seconds",
            "Time in the handler of a request.",
            ["api"],
            buckets=REQUEST_SECONDS,
            registry=None,
        )

    def timed(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers, each with its time observed."""
        return {api: self._timed(ApiKey(api), handler) for api, handler in handlers.items()}

    def _timed(self, api: ApiKey, handler: Handler) -> Handler:
        observe = self.histogram.labels(api.name.lower()).observe
        now_s = asyncio.get_running_loop().time

        async def timed(context: RequestContext, request: object) -> Message | None:
            began_s = now_s()
            try:
                return await handler(context, request)
            finally:
                observe(now_s() - began_s)

        return timed


def partition_metrics(hosted: HostedPartitions) -> Iterator[Metric]:
    """Yield the families with a sample for each hosted replica: its offsets and role, and the ISR of led ones."""
    yield from chain.from_iterable(_per_partition(quantity, _partitions(hosted), _same) for quantity in PARTITIONS)
    yield from chain.from_iterable(_per_partition(quantity, _led(hosted), _same) for quantity in LED)


def hosting_metrics(hosted: HostedPartitions) -> Iterator[Metric]:
    """Yield the totals of the hosted replicas, and the replicas whose logs failed."""
    yield from (_total(quantity, (of for _, of in _partitions(hosted))) for quantity in ALL_PARTITIONS)
    yield from (_total(quantity, (of for _, of in _led(hosted))) for quantity in ALL_LED)
    traffic = hosted.traffic
    yield _counter("tierfetch_produced_bytes", "Bytes of batches that clients produced.", traffic.produced_bytes)
    yield _counter("tierfetch_produced_records", "Records of these batches.", traffic.produced_records)
    yield _counter("tierfetch_consumed_bytes", "Bytes of records that consumers were sent.", traffic.consumed_bytes)
    yield _counter("tierfetch_replicated_bytes", "The same of followers.", traffic.replicated_bytes)
    failed, totals = sorted(hosted.out_of_service()), hosted.log_failures
    yield _gauge("tierfetch_offline_replicas", "Replicas whose log does not let them serve.", len(failed))
    family = GaugeMetricFamily("tierfetch_log_failed", "1: its log does not let it serve.", labels=PARTITION)
    for name in failed:
        family.add_metric([name.topic, str(name.partition)], 1)
    yield family
    yield _counter("tierfetch_log_failures", "Logs that failed while they were served.", totals.count)
    yield _counter("tierfetch_log_lost_records", "Records missing in logs opened again.", totals.lost_records)


def thin_metrics(thin: ThinReplicas, warming: Mapping[TopicPartition, WarmingProgress]) -> Iterator[Metric]:
    """Yield the families of the replicas here that the tier completes: thin ones, and what is still to come to them."""
    longest_ms = max(thin.warm_in_ms().values(), default=0)
    yield _gauge("tierfetch_thin_replicas", "Replicas here that are in sync and thin.", len(thin.partitions()))
    yield _gauge("tierfetch_thin_seconds_left", "When the last one counts as full, at most.", longest_ms / 1000)
    yield _gauge("tierfetch_warming_replicas", "Replicas that are filled from the tier.", len(warming))
    left = sum(each.bytes_left for each in warming.values())
    yield _gauge("tierfetch_warming_bytes_left", "What is still to come from the tier.", left)


def move_metrics(moves: DirectoryMoves) -> Iterator[Metric]:
    """Yield the families of the moves of replicas between log directories."""
    yield _gauge("tierfetch_directory_moves", "Replicas that move between log directories.", moves.count)
    yield _gauge("tierfetch_directory_moves_stalled", "Of these, those without room or after a failure.", moves.stalled)
    yield _counter("tierfetch_directory_moves_failed", "Failures of moves between log directories.", moves.failed)


def follower_metrics(fetchers: FollowedReplicas) -> Iterator[Metric]:
    """Yield the families with a sample for each replica that follows a leader: what it cost, and how far it is."""
    for some in _parts(_followed(fetchers)):
        fetched = CounterMetricFamily(
            "tierfetch_replica_fetch_bytes", "What followed replicas cost so far.", labels=[*PARTITION, "source"]
        )
        for key, progress in some:
            fetched.add_metric([*_labels(key), "leader"], progress.bytes_from_leader)
            fetched.add_metric([*_labels(key), "tier"], progress.bytes_from_tier)
        yield fetched
        waited = CounterMetricFamily(
            "tierfetch_replica_wait_seconds", "What followed replicas waited for.", labels=[*PARTITION, "reason"]
        )
        for key, progress in some:
            waited.add_metric([*_labels(key), "tier"], progress.tier_s)
            waited.add_metric([*_labels(key), "throttle"], progress.held_back_s)
            waited.add_metric([*_labels(key), "append"], progress.append_s)
        yield waited
    yield from chain.from_iterable(_per_partition(quantity, _followed(fetchers), _same) for quantity in FOLLOWED)


def fetcher_metrics(fetchers: FollowedReplicas) -> Iterator[Metric]:
    """Yield the families of the states of followed replicas."""
    without_tier = sum(replica.is_tier_outage_reported for _, replica in fetchers.replicas())
    yield _gauge("tierfetch_bootstraps_waiting", "Bootstraps that wait for the tier.", without_tier)
    states = Counter(replica.state for _, replica in fetchers.replicas())
    family = GaugeMetricFamily("tierfetch_replicas", "Followed replicas by their state.", labels=["state"])
    for state in ReplicaState:
        family.add_metric([state.value], states[state])
    yield family


def copy_lag_metrics(tier: TierStatus, hosted: HostedPartitions) -> Iterator[Metric]:
    """Yield the families with a sample for each led partition: how far its copy to the tier lags."""
    for quantity in COPY_LAGS:
        yield from _per_partition(quantity, _led(hosted), lambda key, _: tier.copy_lag(key))


def tier_metrics(tier: TierStatus, hosted: HostedPartitions) -> Iterator[Metric]:
    """Yield the totals of the remote log manager."""
    for lag in ALL_COPY_LAGS:
        yield _total(lag, (tier.copy_lag(key) for key, _ in _led(hosted)))
    for total in TIER_TOTALS:
        yield CounterMetricFamily(total.name, total.documentation, value=total.value(tier.counters))
    errors = CounterMetricFamily("tierfetch_remote_errors", "Failed work on the tier by kind.", labels=["work"])
    for work, count in tier.counters.errors.items():
        errors.add_metric([work], count)
    yield errors
    yield _gauge(
        "tierfetch_remote_log_metadata_unready",
        "Tiered partitions whose remote log metadata is not read.",
        tier.partitions_without_ledger(),
    )


def group_metrics(groups: GroupCoordinator) -> Iterator[Metric]:
    """Yield the family of the consumer groups that this broker coordinates."""
    states = groups.count_by_state()
    family = GaugeMetricFamily("tierfetch_groups", "Coordinated groups by their state.", labels=["state"])
    for state in GroupState:
        family.add_metric([state.value], states[state])
    yield family
    consumers = groups.count_consumers()
    family = GaugeMetricFamily("tierfetch_consumer_groups", "Coordinated groups of KIP-848 by state.", labels=["state"])
    for each in ConsumerGroupState:
        family.add_metric([each.value], consumers[each])
    yield family
    shares = groups.count_shares()
    family = GaugeMetricFamily("tierfetch_share_groups", "Coordinated groups of KIP-932 by state.", labels=["state"])
    for share in ShareGroupState:
        family.add_metric([share.value], shares[share])
    yield family


def log_metrics(logs: LogManager, disk: NodeDisk) -> Iterator[Metric]:
    """Yield the families of compaction, the log directories and the disk below them."""
    cleaner = logs.upkeep.cleaner
    yield _counter("tierfetch_cleaned_bytes", "What compaction went through.", cleaner.cleaned_bytes)
    yield _counter("tierfetch_cleaner_errors", "Logs that could not be compacted.", cleaner.failures)
    offline = GaugeMetricFamily("tierfetch_log_dir_offline", "1: the directory is offline.", labels=["directory"])
    free = GaugeMetricFamily("tierfetch_log_dir_usable_bytes", "Room on its disk.", labels=["directory"])
    refusing = GaugeMetricFamily("tierfetch_log_dir_full", "1: produce to it is refused.", labels=["directory"])
    for directory in logs.directories:
        path, space = [str(directory.path)], directory.free_space
        offline.add_metric(path, directory.offline is not None)
        refusing.add_metric(path, not space.accepts_clients)
        if space.usable_bytes is not None and directory.offline is None:
            free.add_metric(path, space.usable_bytes)
    yield from (offline, free, refusing)
    yield _gauge("tierfetch_disk_queue_depth", "Calls to the disk that wait or run.", disk.queue_depth)


def server_metrics(server: Server) -> Iterator[Metric]:
    """Yield the families of one listener: its connections and the memory of its requests."""
    memory = server.memory
    yield _gauge("tierfetch_connections", "Connections of clients and brokers.", len(server.connections))
    yield _gauge("tierfetch_request_memory_bytes", "Requests that have arrived and are not answered.", memory.used)
    yield _gauge("tierfetch_request_memory_waiting", "Connections that wait to send a request.", memory.waiting)
    yield _counter("tierfetch_request_memory_waits", "How often connections had to wait to send.", memory.waits)


def _partitions(hosted: HostedPartitions) -> Iterable[tuple[TopicIdPartition, Partition]]:
    return ((partition.partition, partition) for partition in hosted.partitions.values())


def _led(hosted: HostedPartitions) -> Iterator[tuple[TopicIdPartition, LeaderReplicas]]:
    for key, partition in _partitions(hosted):
        if partition.leadership is not None:
            yield key, partition.leadership.replicas


def _followed(fetchers: FollowedReplicas) -> Iterable[tuple[TopicIdPartition, ReplicaProgress]]:
    return ((key, replica.progress) for key, replica in fetchers.replicas())


def _labels(key: TopicIdPartition) -> list[str]:
    return [key.topic, str(key.partition)]


def _same(_: TopicIdPartition, subject: T) -> T:
    return subject


def _per_partition(
    quantity: Quantity[U],
    subjects: Iterable[tuple[TopicIdPartition, T]],
    seen: Callable[[TopicIdPartition, T], U],
) -> Iterator[Metric]:
    """Return the family in parts; `seen` gives what the quantity is of."""
    for some in _parts(subjects):
        family = GaugeMetricFamily(quantity.name, quantity.documentation, labels=PARTITION)
        for key, subject in some:
            value = quantity.value(seen(key, subject))
            if value is not None:
                family.add_metric(_labels(key), value)
        yield family


def _total(quantity: Quantity[T], subjects: Iterable[T]) -> Metric:
    return _gauge(quantity.name, quantity.documentation, sum(quantity.value(subject) or 0 for subject in subjects))


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    """Return the items as they are now, in parts; one part of nothing if there are none, for its name and type."""
    now = list(items)
    for first in range(0, max(1, len(now)), PART_SAMPLES):
        yield now[first : first + PART_SAMPLES]


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(name, documentation, value=value)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)
