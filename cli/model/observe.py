"""Asks a live cluster, Apache Kafka's or ours, for a snapshot. It may change meanwhile:

    while it is asked                              then
    ---------------------------------------------  ------------------------------------------------------------------
    a leader moves, or answers "not yet"           Metadata is asked again and the new leader, `ROUNDS_MAX` times
    a topic is deleted                             it is left out, and said
    a topic is created                             it is left out: the next capture has it
    a broker goes, or does not answer              its sizes are unknown, its leaderships as with a leader that moves
    a partition has no leader                      it stays, with its replicas and without offsets
    a broker is too old for a question             that offset is unknown
    the remote log metadata cannot be read         what is in the tier is unknown, and it is said why

The remote log metadata are read last: a segment that the offsets name is in them, unless it was deleted meanwhile.

Only reading requests are sent: Metadata, DescribeConfigs, ListOffsets, DescribeLogDirs, ListPartitionReassignments, and
Fetch of `__remote_log_metadata`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from ...protocol import (
    BROKER_ENDPOINTS,
    OUTSIDE,
    ErrorCode,
    KafkaError,
    TopicIdPartition,
    cluster_of,
    configs_of,
    offsets_of,
)
from ...protocol.messages import Request, ResponseT
from ...protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResult
from ...protocol.messages.configs import DescribeConfigsResult
from ...protocol.messages.topics import ListPartitionReassignmentsRequest
from ...protocol.net import Address, closing
from ...protocol.wire import ResourceType
from ...remote.core import RemoteLogLedger
from ..cluster_session import Cluster, check
from ..tier.ledgers import MetadataTopicLedgers, MetadataUnavailableError
from .snapshot import NO_LEADER, BrokerState, DirectoryState, Offsets, PartitionState, RemoteSegment, Snapshot

TIMEOUT_MS: Final = 30_000
ROUNDS_MAX: Final = 5
ROUND_PAUSE_S: Final = 0.5
PARTITIONS_PER_REQUEST_MAX: Final = 2_000
TOPICS_PER_REQUEST_MAX: Final = 200
NAMED_MAX: Final = 5
"""In a remark; the rest is counted."""

LOG_END: Final = "log_end"
TIMESTAMPS: Final[Mapping[str, int]] = {
    LOG_END: -1,
    "log_start": -2,
    "local_log_start": -4,
    "last_tiered": -5,
    "next_upload": -6,
}
UNTIERED_FIELDS: Final = (LOG_END, "log_start")
ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
    }
)
TOPIC_CONFIGS: Final = ("remote.storage.enable", "segment.bytes", "min.insync.replicas", "cleanup.policy")
BROKER_CONFIGS: Final = (
    "follower.fetch.last.tiered.offset.enable",
    "bootstrap.policy",
    "bootstrap.bounded.local.bytes",
    "bootstrap.bounded.local.ms",
    "follower.replication.throttled.rate",
    "remote.log.manager.task.interval.ms",
    "remote.log.manager.copy.max.bytes.per.second",
)

Key = tuple[str, int]
"""Topic and partition index."""

Progress = Callable[[str], None]
"""Called with the next question."""


class Asker(Protocol):
    """A connection to a cluster: `cli.cluster_session.Admin`."""

    async def send(self, request: Request[ResponseT]) -> ResponseT: ...

    async def send_to(self, address: Address, request: Request[ResponseT]) -> ResponseT: ...

    async def cluster(self, topics: Sequence[str] | None = None) -> Cluster: ...


class LedgerSource(Protocol):
    """`cli.tier.ledgers.MetadataTopicLedgers`."""

    async def read_on(self) -> Mapping[TopicIdPartition, RemoteLogLedger]: ...

    async def close(self) -> None: ...


class Observer:
    """One capture's questions. KafkaError and OSError where a question failed that nothing can be known without.

    `ledgers` makes a reader of the remote log metadata from the brokers' addresses; None: they are not read.
    """

    def __init__(
        self,
        admin: Asker,
        *,
        ledgers: Callable[[Sequence[Address]], LedgerSource] | None = MetadataTopicLedgers,
        progress: Progress = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        pause_s: float = ROUND_PAUSE_S,
    ) -> None:
        self._admin = admin
        self._ledgers = ledgers
        self._progress = progress
        self._clock = clock
        self._pause_s = pause_s

    async def everything(self) -> Snapshot:
        """Brokers, topics, configs, offsets, sizes."""
        self._progress("topics and brokers")
        cluster = await self._admin.cluster()
        partitions = _partitions(cluster)
        remarks = await self._reassignments()
        self._progress("configs")
        topic_configs = await self._topic_configs([topic.name for topic in cluster.topics])
        tiered = {name for name, configs in topic_configs.items() if configs.get("remote.storage.enable") == "true"}
        found, said = await self._with_offsets(cluster, partitions, tiered)
        sizes, directories, more = await self._log_dirs(cluster)
        configs = {broker: await self._broker_configs(cluster, broker) for broker in cluster.brokers}
        brokers = {
            broker: BrokerState(
                id=broker,
                rack=cluster.racks.get(broker),
                disk_bytes=_whole_disk(directories.get(broker, ())),
                directories=directories.get(broker, ()),
                configs=configs[broker],
            )
            for broker in sorted(cluster.brokers)
        }
        racks = await self._racks()
        remote, unread = await self._remote(cluster, tiered)
        return Snapshot(
            brokers=brokers,
            topic_configs=topic_configs,
            partitions=found,
            local_bytes=sizes,
            racks=racks,
            remote=remote,
            remarks=(*remarks, *said, *more, *unread),
        )

    async def _remote(
        self, cluster: Cluster, tiered: Collection[str]
    ) -> tuple[dict[Key, list[RemoteSegment]] | None, list[str]]:
        """The readable segments of these topics, not of others that had their names before; and why there are none."""
        if self._ledgers is None or not tiered:
            return None, []
        self._progress("remote log metadata")
        addresses = [address for _, address in sorted(cluster.brokers.items())]
        async with closing(self._ledgers(addresses)) as source:
            try:
                ledgers = await source.read_on()
            except MetadataUnavailableError as error:
                return None, [f"what is in the tier alone is estimated by local records, or unknown: {error}"]
        return {
            (partition.topic, partition.partition): [
                RemoteSegment(each.start_offset, each.end_offset, each.segment_size_in_bytes)
                for each in ledger.finished()
            ]
            for partition, ledger in ledgers.items()
            if partition.topic in tiered and cluster.topic_ids.get(partition.topic) == partition.topic_id
        }, []

    async def _racks(self) -> dict[int, str]:
        """Return the racks of all registered brokers (KIP-1073); none if the cluster does not support the request."""
        try:
            answer = await self._admin.send(cluster_of(BROKER_ENDPOINTS, include_fenced_brokers=True))
        except KafkaError:
            return {}
        return {broker.broker_id: broker.rack for broker in answer.brokers if broker.rack is not None}

    async def growth(self, before: Snapshot) -> Snapshot:
        """Observe the ends and sizes of the same partitions again."""
        self._progress("log ends once more")
        cluster = await self._admin.cluster()
        partitions = {key: state for key, state in _partitions(cluster).items() if key in before.partitions}
        found, _ = await self._with_offsets(cluster, partitions, frozenset())
        sizes, _, _ = await self._log_dirs(cluster)
        return dataclasses.replace(before, partitions=found, local_bytes=sizes, remarks=())

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def _with_offsets(
        self, cluster: Cluster, partitions: Mapping[Key, PartitionState], tiered: Iterable[str]
    ) -> tuple[dict[Key, PartitionState], list[str]]:
        """The partitions that still exist, with their offsets, and what was odd."""
        states = dict(partitions)
        waiting = {key for key, state in states.items() if state.leader != NO_LEADER}
        is_tiered = frozenset(tiered)
        for number in range(ROUNDS_MAX):
            if number:
                await asyncio.sleep(self._pause_s)
                cluster = await self._admin.cluster()
                states = _renewed(states, cluster)
                waiting = {key for key in waiting if key in states and states[key].leader != NO_LEADER}
            self._progress(f"offsets of {len(waiting):,} partitions")
            answered = await self._offsets(cluster, [states[key] for key in sorted(waiting)], is_tiered)
            for key, offsets in answered.items():
                states[key] = dataclasses.replace(states[key], offsets=offsets)
            waiting -= answered.keys()
            if not waiting:
                break
        deleted = sorted(partitions.keys() - states.keys())
        leaderless = sorted(key for key, state in states.items() if state.leader == NO_LEADER)
        return states, [
            *_remark(deleted, "deleted while the cluster was asked; left out"),
            *_remark(leaderless, "without a leader: no offsets"),
            *_remark(sorted(waiting), "whose leader did not answer for its offsets"),
        ]

    async def _offsets(
        self, cluster: Cluster, states: Sequence[PartitionState], tiered: frozenset[str]
    ) -> dict[Key, Offsets]:
        """Return the offsets of the partitions whose leader answered every request."""
        by_leader: dict[tuple[int, bool], list[Key]] = {}
        for state in states:
            by_leader.setdefault((state.leader, state.topic in tiered), []).append((state.topic, state.index))
        found: dict[Key, Offsets] = {}
        for (leader, is_tiered), keys in sorted(by_leader.items()):
            address = cluster.brokers.get(leader)
            names = tuple(TIMESTAMPS) if is_tiered else UNTIERED_FIELDS
            for first in range(0, len(keys), PARTITIONS_PER_REQUEST_MAX) if address is not None else ():
                assert address is not None
                found |= await self._offsets_at(address, keys[first : first + PARTITIONS_PER_REQUEST_MAX], names)
        return found

    async def _offsets_at(self, address: Address, keys: Sequence[Key], names: Sequence[str]) -> dict[Key, Offsets]:
        """One request for each kind of offset: a partition may stand in a request once. Its log end is taken to be that
        of the middle between question and answer: a rate between two looks at it needs the time of each, however long
        all other questions take.
        """
        known: dict[Key, dict[str, int | None]] = {key: {} for key in keys}
        seen_at_s = 0.0
        for name in names:
            asked_at_s = self._clock()
            try:
                request = offsets_of(keys, TIMESTAMPS[name], timeout_ms=TIMEOUT_MS)
                answer = await self._admin.send_to(address, request)
            except OSError:
                return {}
            if name == LOG_END:
                seen_at_s = (asked_at_s + self._clock()) / 2
            for topic in answer.topics:
                for part in topic.partitions:
                    key = (topic.name, part.partition_index)
                    if part.error_code in ASK_AGAIN:
                        known.pop(key, None)
                    elif key in known:
                        is_known = part.error_code is ErrorCode.none and part.offset >= 0
                        known[key][name] = part.offset if is_known else None
        return {key: Offsets(**values, seen_at_s=seen_at_s) for key, values in known.items()}

    # --- sizes and configs ------------------------------------------------------------------------------------------

    async def _log_dirs(
        self, cluster: Cluster
    ) -> tuple[dict[tuple[int, str, int], int], dict[int, tuple[DirectoryState, ...]], list[str]]:
        """Sizes by (broker, topic, index), the log directories that are online by broker, and what was odd."""
        sizes: dict[tuple[int, str, int], int] = {}
        online: dict[int, tuple[DirectoryState, ...]] = {}
        remarks = []
        for broker, address in sorted(cluster.brokers.items()):
            self._progress(f"log directories of broker {broker}")
            try:
                directories = await self._directories(address)
            except OUTSIDE as error:
                remarks.append(f"broker {broker} does not report what its log directories hold: {error}")
                continue
            remarks += [
                f"broker {broker}: log directory {directory.log_dir} is offline"
                for directory in directories
                if directory.error_code is ErrorCode.kafka_storage_error
            ]
            sizes |= {
                (broker, topic.name, part.partition_index): part.partition_size
                for directory in directories
                for topic in directory.topics
                for part in topic.partitions
                if not part.is_future_key
            }
            online[broker] = tuple(
                DirectoryState(
                    directory.log_dir,
                    directory.total_bytes if directory.total_bytes >= 0 else None,
                    sum(part.partition_size for topic in directory.topics for part in topic.partitions),
                )
                for directory in directories
                if directory.error_code is not ErrorCode.kafka_storage_error
            )
        return sizes, online, remarks

    async def _directories(self, address: Address) -> Sequence[DescribeLogDirsResult]:
        """Return a broker's directories, also those offline. KafkaError for any other fault, OSError."""
        answer = await self._admin.send_to(address, DescribeLogDirsRequest(topics=None))
        for directory in answer.results:
            if directory.error_code is not ErrorCode.kafka_storage_error:
                check(directory, directory.log_dir)
        return answer.results

    async def _topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for first in range(0, len(names), TOPICS_PER_REQUEST_MAX):
            chosen = names[first : first + TOPICS_PER_REQUEST_MAX]
            answer = await self._admin.send(configs_of(ResourceType.TOPIC, [(name, TOPIC_CONFIGS) for name in chosen]))
            found |= {each.resource_name: _configs(each) for each in answer.results}
        return found

    async def _broker_configs(self, cluster: Cluster, broker: int) -> dict[str, str]:
        request = configs_of(ResourceType.BROKER, [(str(broker), BROKER_CONFIGS)])
        try:
            answer = await self._admin.send_to(cluster.brokers[broker], request)
        except OUTSIDE:
            return {}
        return _configs(answer.results[0])

    async def _reassignments(self) -> list[str]:
        request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
        try:
            answer = await self._admin.send(request)
        except OUTSIDE:
            return []
        moving = sorted((topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions)
        return _remark(moving, "being reassigned: their replicas are the old and the new ones together")


def _whole_disk(directories: Sequence[DirectoryState]) -> int | None:
    """Return the size of all of them; None where one is not known."""
    totals = [each.disk_bytes for each in directories if each.disk_bytes is not None]
    return sum(totals) if totals and len(totals) == len(directories) else None


def _partitions(cluster: Cluster) -> dict[Key, PartitionState]:
    return {
        (topic.name, part.partition_index): PartitionState(
            topic=topic.name,
            index=part.partition_index,
            leader=part.leader_id if part.leader_id in cluster.brokers else NO_LEADER,
            replicas=tuple(part.replica_nodes),
            isr=tuple(part.isr_nodes),
        )
        for topic in cluster.topics
        for part in topic.partitions
    }


def _renewed(states: Mapping[Key, PartitionState], cluster: Cluster) -> dict[Key, PartitionState]:
    """As Metadata has them now, with the offsets that are known; without deleted ones."""
    now = _partitions(cluster)
    return {key: dataclasses.replace(now[key], offsets=state.offsets) for key, state in states.items() if key in now}


def _configs(result: DescribeConfigsResult) -> dict[str, str]:
    if result.error_code is not ErrorCode.none:
        return {}
    return {entry.name: entry.value for entry in result.configs if entry.value is not None}


def _remark(keys: Sequence[Key], what: str) -> list[str]:
    if not keys:
        return []
    named = ", ".join(f"{topic}-{index}" for topic, index in keys[:NAMED_MAX])
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    return [f"{named}{more}: {what}"]
