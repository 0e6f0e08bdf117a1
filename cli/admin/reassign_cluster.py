"""The cluster of a plan: reads what `planning.cluster_state` asks for, and does what `execution` decided.

Reading sends ListPartitionReassignments first and Metadata after it, so that a reassignment that ends in between shows
in the replicas. Configs of a broker are asked of and set at that broker, as Apache Kafka requires. Of one that is not
alive any tierfetch broker sets them; Apache Kafka refuses that, and the broker is remembered in `left`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from ...fetcher.core import EARLIEST_PENDING_UPLOAD_TIMESTAMP, LATEST_TIMESTAMP
from ...planning import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ClusterState,
    ConfigValue,
    DirectoryMove,
    Key,
    PartitionState,
    Placement,
)
from ...protocol import OUTSIDE, ErrorCode, KafkaError, configs_of, metadata_of, offsets_of, uuid_to_text
from ...protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from ...protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ...protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.net import Address
from ...protocol.wire import ConfigSource, ResourceType
from ..cluster_session import Admin, check

TIMEOUT_MS: Final = 30_000
NO_LEADER: Final = -1
PREFERRED: Final = 0
_SET, _DELETE = 0, 1
_TOPIC_IS_GONE: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception})


class PlanCluster:
    """One session's view of a cluster. KafkaError, OSError."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[Key, int] = {}
        self.cluster_id = ""
        self.notes: list[str] = []
        self.left: set[int] = set()

    async def state(self, topics: Sequence[str]) -> ClusterState:
        """All partitions of these topics; those that do not exist are absent.

        Replicas, adding and removing ones of a reassignment are the controller's: the broker that is asked for the rest
        may be a moment behind it, and out of two moments they would be replicas that were never assigned.
        """
        rows = {(row["topic"], row["partition"]): row for row in await under_way(self._admin)}
        answer = await self._admin.send(metadata_of(topics))
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        self.cluster_id = answer.cluster_id or ""
        partitions: dict[Key, PartitionState] = {}
        for topic in answer.topics:
            if topic.error_code is not ErrorCode.none:
                if topic.error_code not in _TOPIC_IS_GONE:
                    check(topic, f"topic {topic.name}")
                continue
            topic_id = "" if topic.topic_id is None else uuid_to_text(topic.topic_id)
            for part in topic.partitions:
                key = (topic.name or "", part.partition_index)
                row = rows.get(key)
                partitions[key] = PartitionState(
                    topic_id,
                    tuple(part.replica_nodes if row is None else row["replicas"]),
                    tuple(part.isr_nodes),
                    part.leader_id,
                    () if row is None else tuple(row["adding"]),
                    () if row is None else tuple(row["removing"]),
                )
        self._leaders = {key: found.leader for key, found in partitions.items()}
        brokers = {key: frozenset((*row["replicas"], *row["adding"], *row["removing"])) for key, row in rows.items()}
        return ClusterState(frozenset(self._brokers), partitions, under_way=brokers)

    async def uploaded(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The next offset to upload of each partition whose leader knows it."""
        return await self._offsets(keys, EARLIEST_PENDING_UPLOAD_TIMESTAMP)

    async def log_ends(self, keys: Iterable[Key]) -> dict[Key, int]:
        return await self._offsets(keys, LATEST_TIMESTAMP)

    async def _offsets(self, keys: Iterable[Key], timestamp: int) -> dict[Key, int]:
        by_leader: dict[int, list[Key]] = {}
        for key in keys:
            by_leader.setdefault(self._leaders.get(key, NO_LEADER), []).append(key)
        found: dict[Key, int] = {}
        for leader, asked in sorted(by_leader.items()):
            if leader not in self._brokers:
                continue
            request = offsets_of(asked, timestamp, timeout_ms=TIMEOUT_MS)
            answer = await self._admin.send_to(self._brokers[leader], request)
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.error_code is ErrorCode.none and part.offset >= 0:
                        found[topic.name, part.partition_index] = part.offset
        return found

    async def copied_bytes(self, state: ClusterState, keys: Iterable[Key]) -> dict[Key, int]:
        """What new replicas of these partitions hold so far; nothing of brokers that do not answer."""
        adding: dict[int, dict[str, list[int]]] = {}
        for topic, partition in keys:
            for broker in state.partitions[topic, partition].adding:
                adding.setdefault(broker, {}).setdefault(topic, []).append(partition)
        found: dict[Key, int] = {}
        for broker, topics in sorted(adding.items()):
            for key, size in (await self._local_bytes(broker, topics)).items():
                found[key] = found.get(key, 0) + size
        return found

    async def _local_bytes(self, broker: int, topics: Mapping[str, Sequence[int]]) -> dict[Key, int]:
        """What a broker has of these partitions on its disks; nothing if it does not answer."""
        wanted = [DescribableLogDirTopic(topic=name, partitions=tuple(parts)) for name, parts in topics.items()]
        try:
            answer = await self._admin.send_to(self._brokers[broker], DescribeLogDirsRequest(topics=tuple(wanted)))
        except (*OUTSIDE, KeyError):
            return {}
        found: dict[Key, int] = {}
        for directory in answer.results:
            for held in directory.topics:
                for part in held.partitions:
                    key = (held.name, part.partition_index)
                    found[key] = found.get(key, 0) + max(0, part.partition_size)
        return found

    async def held_bytes(self, keys: Iterable[Key]) -> dict[Key, int]:
        """What the leaders of these partitions have on their disks; nothing of brokers that do not answer."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, partition in keys:
            by_leader.setdefault(self._leaders.get((topic, partition), NO_LEADER), {}).setdefault(topic, []).append(
                partition
            )
        found: dict[Key, int] = {}
        for broker, topics in sorted(by_leader.items()):
            found |= await self._local_bytes(broker, topics)
        return found

    async def throttles(self, brokers: Iterable[int]) -> dict[int, tuple[int | None, int | None]]:
        """The replication throttles of those of these brokers that are alive, as leaders and as followers."""
        asked = [("broker", str(each), (LEADER_RATE, FOLLOWER_RATE)) for each in brokers if each in self._brokers]
        values = {(each.name, each.key): each.value for each in await self.configs(asked)} if asked else {}

        def rate(name: str, key: str) -> int | None:
            value = values.get((name, key))
            return None if value is None else int(value)

        return {int(name): (rate(name, LEADER_RATE), rate(name, FOLLOWER_RATE)) for _, name, _ in asked}

    async def with_directories(self, state: ClusterState, replicas: Iterable[tuple[Key, int]]) -> ClusterState:
        """Return the state with the log directories of these replicas' brokers, as far as they answer, and where the
        replicas are.
        """
        by_broker: dict[int, dict[str, list[int]]] = {}
        for (topic, partition), broker in replicas:
            by_broker.setdefault(broker, {}).setdefault(topic, []).append(partition)
        log_dirs: dict[int, frozenset[str]] = {}
        found: dict[tuple[Key, int], Placement] = {}
        for broker, topics in sorted(by_broker.items()):
            wanted = [DescribableLogDirTopic(topic=name, partitions=tuple(parts)) for name, parts in topics.items()]
            try:
                answer = await self._admin.send_to(self._brokers[broker], DescribeLogDirsRequest(topics=tuple(wanted)))
            except (*OUTSIDE, KeyError):
                continue
            online = [each for each in answer.results if each.error_code is ErrorCode.none]
            log_dirs[broker] = frozenset(each.log_dir for each in online)
            found |= _placements(broker, online)
        return replace(state, log_dirs=log_dirs, placements=found)

    async def move_directories(self, moves: Iterable[DirectoryMove]) -> list[str]:
        """Ask brokers to move replicas between their log directories; return what was refused, a line for each.

        A replica that is not there yet is created in that directory when it comes. A broker that does not answer is
        asked again by the next step.
        """
        by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
        for move in moves:
            (topic, partition), paths = move.key, by_broker.setdefault(move.broker, {})
            paths.setdefault(move.path, {}).setdefault(topic, []).append(partition)
        refused: list[str] = []
        for broker, paths in sorted(by_broker.items()):
            if broker not in self._brokers:
                continue
            answer = await self._admin.send_to(self._brokers[broker], _alter_log_dirs(paths))
            wanted = {
                (topic, number): path
                for path, topics in paths.items()
                for topic, numbers in topics.items()
                for number in numbers
            }
            refused += [
                f"{result.topic_name}-{part.partition_index}: broker {broker} does not move it to"
                f" {wanted[result.topic_name, part.partition_index]}: {part.error_code.name}"
                for result in answer.results
                for part in result.partitions
                if part.error_code not in (ErrorCode.none, ErrorCode.replica_not_available)
            ]
        return refused

    async def configs(self, asked: Sequence[tuple[str, str, tuple[str, ...]]]) -> tuple[ConfigValue, ...]:
        """As they are set now, by kind, name and keys; None where only a default holds."""
        topics = [(name, keys) for kind, name, keys in asked if kind == "topic"]
        found = await self._described(None, ResourceType.TOPIC, topics) if topics else {}
        for kind, name, keys in asked:
            if kind == "broker" and int(name) in self._brokers:
                found |= await self._described(self._brokers[int(name)], ResourceType.BROKER, [(name, keys)])
        return tuple(
            ConfigValue.model_validate({"kind": kind, "name": name, "key": key, "value": found.get((kind, name, key))})
            for kind, name, keys in asked
            for key in keys
        )

    async def _described(
        self, address: Address | None, resource_type: ResourceType, asked: Sequence[tuple[str, tuple[str, ...]]]
    ) -> dict[tuple[str, str, str], str]:
        request = configs_of(resource_type, asked)
        if address is None:
            answer = await self._admin.send(request)
        else:
            answer = await self._admin.send_to(address, request)
        kind, own = _KINDS[resource_type]
        found = {}
        for result in answer.results:
            check(result, f"configs of {kind} {result.resource_name}")
            for entry in result.configs:
                if entry.config_source == own and entry.value is not None:
                    found[kind, result.resource_name, entry.name] = entry.value
        return found

    async def set_configs(self, values: Iterable[ConfigValue]) -> None:
        """Send the topics' changes in one request, and each broker's to that broker."""
        resources: dict[tuple[str, str], list[IncrementalAlterConfigsRequestAlterableConfig]] = {}
        for each in values:
            operation = _DELETE if each.value is None else _SET
            change = IncrementalAlterConfigsRequestAlterableConfig(
                name=each.key, config_operation=operation, value=each.value
            )
            resources.setdefault((each.kind, each.name), []).append(change)
        topics = {name: changes for (kind, name), changes in resources.items() if kind == "topic"}
        if topics:
            await self._alter(None, ResourceType.TOPIC, topics)
        for (kind, name), changes in sorted(resources.items()):
            if kind == "topic":
                continue
            if await self._alter_broker(int(name), changes):
                self.left.discard(int(name))
            else:
                self.left.add(int(name))

    async def _alter_broker(
        self, broker: int, changes: Sequence[IncrementalAlterConfigsRequestAlterableConfig]
    ) -> bool:
        """Return False if it is not alive, since no other broker takes its configs."""
        if broker in self._brokers:
            await self._alter(self._brokers[broker], ResourceType.BROKER, {str(broker): changes})
            return True
        try:
            await self._alter(None, ResourceType.BROKER, {str(broker): changes})
        except KafkaError as error:
            if error.code is not ErrorCode.invalid_request:
                raise
            return False
        return True

    async def _alter(
        self,
        address: Address | None,
        resource_type: int,
        resources: Mapping[str, Sequence[IncrementalAlterConfigsRequestAlterableConfig]],
    ) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=resource_type, resource_name=name, configs=tuple(changes)
                )
                for name, changes in resources.items()
            ),
            validate_only=False,
        )
        if address is None:
            answer = await self._admin.send(request)
        else:
            answer = await self._admin.send_to(address, request)
        for result in answer.responses:
            if result.error_code not in _TOPIC_IS_GONE:
                check(result, f"configs of {result.resource_name}")

    async def reassign(self, replicas: Iterable[tuple[Key, Sequence[int] | None]]) -> list[str]:
        """What was refused, a line for each. Replicas None: take it back."""
        return await reassign(self._admin, replicas)

    async def elect(self, keys: Iterable[Key]) -> None:
        """Preferred leaders; who may not lead yet is passed over."""
        topics: dict[str, list[int]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(partition)
        asked = tuple(
            ElectLeadersRequestTopicPartitions(topic=name, partitions=tuple(parts)) for name, parts in topics.items()
        )
        await self._admin.send(
            ElectLeadersRequest(election_type=PREFERRED, topic_partitions=asked, timeout_ms=TIMEOUT_MS)
        )


def _alter_log_dirs(paths: Mapping[str, Mapping[str, Sequence[int]]]) -> AlterReplicaLogDirsRequest:
    """Return the request for partitions by topic, by the path of the log directory."""
    return AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers)) for topic, numbers in topics.items()
                ),
            )
            for path, topics in paths.items()
        )
    )


def _placements(broker: int, results: Iterable[DescribeLogDirsResult]) -> dict[tuple[Key, int], Placement]:
    current: dict[Key, str] = {}
    future: dict[Key, str] = {}
    for result in results:
        for topic in result.topics:
            for part in topic.partitions:
                where = future if part.is_future_key else current
                where[topic.name, part.partition_index] = result.log_dir
    return {(key, broker): Placement(path, future.get(key)) for key, path in current.items()}


_KINDS: Final = {
    ResourceType.TOPIC: ("topic", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    ResourceType.BROKER: ("broker", ConfigSource.DYNAMIC_BROKER_CONFIG),
}
"""What a journal calls it, and the source of what is set for this resource itself."""


class UnderWay(TypedDict):
    """A reassignment of one partition, as `--json` shows it."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


async def under_way(admin: Admin) -> list[UnderWay]:
    """Every reassignment of the cluster."""
    answer = await admin.send(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
    return [
        {
            "topic": topic.name,
            "partition": part.partition_index,
            "replicas": list(part.replicas),
            "adding": list(part.adding_replicas),
            "removing": list(part.removing_replicas),
        }
        for topic in sorted(answer.topics, key=lambda topic: topic.name)
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    ]


async def reassign(admin: Admin, replicas: Iterable[tuple[Key, Sequence[int] | None]]) -> list[str]:
    """What was refused, a line for each; taking back what is not under way is no refusal."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), brokers in replicas:
        wanted = None if brokers is None else tuple(brokers)
        topics.setdefault(topic, []).append(ReassignablePartition(partition_index=partition, replicas=wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=tuple(ReassignableTopic(name=topic, partitions=tuple(parts)) for topic, parts in topics.items()),
    )
    answer = await admin.send(request)
    return [
        f"{topic.name}-{part.partition_index}: {part.error_message or part.error_code.name}"
        for topic in answer.responses
        for part in topic.partitions
        if part.error_code not in (ErrorCode.none, ErrorCode.no_reassignment_in_progress)
    ]
