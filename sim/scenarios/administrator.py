"""The administrator of a cluster: a client that changes it under faults, and repairs what only people can.

| job              | request                                                                                          |
|------------------|--------------------------------------------------------------------------------------------------|
| create, delete   | side topics come, get a few tiered segments, grow by a partition, and go; or are replaced at     |
|                  | once by others of the same name                                                                  |
| reassign, cancel | a partition gets other replicas, or the same in another order; or keeps those that it had        |
| switch           | `follower.fetch.last.tiered.offset.enable` of all brokers; the level of a feature; a topic's     |
|                  | segment size, the source of its timestamps; whether it is copied to the tier                     |
| move leaders     | the same replicas, another in-sync one first; then the election of the preferred                 |
| unclean          | `unclean.leader.election.enable` of a topic on, and off again                                    |
| rescue           | a partition whose last in-sync member has lost its disk, or says that its log has lost records   |
|                  | and asks for a decision: of the live replicas, the one with the newest epoch and the longest     |
|                  | log leads, uncleanly                                                                             |

When a job is done says the grammar (`operations`): what it draws comes from the `rng` that it is given there. What
was acknowledged must hold in the end (`anomalies`). After a request whose outcome is not known nothing is said
about its topic any longer: it may still be on its way. What side topics were acknowledged must be in them
(`lost_from`). `changed` counts what was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final
from uuid import UUID

from ...broker import Broker
from ...broker.cluster import NO_LEADER, ClusterImage, PartitionRegistration
from ...controller import PartitionKey
from ...controller import PartitionRegistration as ControllersRegistration
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition, TopicPartition
from ...protocol.messages import FEATURE_SAFE_DOWNGRADE, Request, ResponseT
from ...protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from ...protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ...protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.net import Address, KafkaClient
from ...protocol.records import Compression, Record, build_batch
from ...protocol.wire import ResourceType
from ..judges.core.acknowledged_writes import Anomaly, FinalLog
from ..judges.core.allowed_losses import AllowedLosses
from ..judges.core.history import ACKS_ALL
from ..judges.core.truth import UNCLEAN_KEY, ClusterTruth
from ..machine.clock import EPOCH_MS
from .client import AttemptFailedError, SimClient

SIDE_TOPICS: Final = ("side-1", "side-2")
SWITCH: Final = "follower.fetch.last.tiered.offset.enable"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
FEATURES: Final = {GROUP_VERSION: 1, "transaction.version": 2, "tierfetch.version": 1}
"""Features that are switched, with the highest level of each."""
COPY_DISABLE: Final = "remote.log.copy.disable"
LOG_APPEND_TIME: Final = ("message.timestamp.type", "LogAppendTime")
CONFIGS: Final = {
    "internal.segment.bytes": ("3000", "6000"),
    LOG_APPEND_TIME[0]: (LOG_APPEND_TIME[1], "CreateTime", "CreateTime", "CreateTime"),
}
"""Configs of side topics that are set, and to what."""
TIMEOUT_S: Final = 2.0
TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)
RESCUE_AFTER_S: Final = 3.0
"""A partition has no leader for so long, and no replica that may lead."""
RESCUE_LATEST_S: Final = 12.0
"""Then without those that are still down."""
LOSS_TO_ACCEPT: Final = "accept the loss"
"""What a broker says of a log that has lost records, where no other broker leads (`failed_logs.obstacle`)."""
SIDE_BATCHES: Final = 12
SIDE_VALUE_BYTES: Final = 400
PREFERRED, UNCLEAN = 0, 1
_SET = 0

Brokers = Callable[[], Mapping[int, Broker | None]]


class Administrator:
    """Its jobs, `rescue` and `move_leaders` run beside everything else, on a host of their own."""

    def __init__(
        self,
        truth: ClusterTruth,
        brokers: Brokers,
        addresses: Sequence[Address],
        rng: Random,
        *,
        side_configs: Mapping[str, str],
        record: Callable[[str, str], None],
        kept_features: Collection[str] = (),
    ) -> None:
        self._truth = truth
        self._brokers = brokers
        self._addresses = tuple(addresses)
        self._rng = rng
        self._side_configs = dict(side_configs)
        self._record = record
        self._features = {name: level for name, level in FEATURES.items() if name not in kept_features}
        self._client = KafkaClient(client_id="administrator", random=rng)
        self._producer = SimClient("administrator-produces", addresses, rng)
        self._exists: dict[str, bool] = {}
        """Side topics, as acknowledged last."""
        self._uncertain: set[str] = set()
        """Topics and partitions about which a request had no answer, or has none yet."""
        self._requests: Counter[str] = Counter()
        """About each of these, so far."""
        self._targets: dict[TopicIdPartition, tuple[int, ...]] = {}
        self._produced: dict[TopicIdPartition, dict[int, tuple[int, int]]] = {}
        """Acknowledged records of side topics by offset: number, and when it was sent."""
        self.restamped: set[UUID] = set()
        """Topics whose leaders may have put their own time into records."""
        self._incarnations: dict[UUID, int] = {}
        """The number of each side topic, in the order in which they came."""
        self.changed: Counter[str] = Counter()
        self._assigning = asyncio.Lock()
        self._leaderless_since_s: dict[TopicIdPartition, float] = {}

    # -- what it does -------------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
        """Until it is there: the first act of a run."""
        while name not in self._truth.image.topics:
            await self._create(name, assignments, configs)
            await asyncio.sleep(0.1)

    async def raise_feature(self, name: str) -> None:
        """A feature is at its highest level, once this returns."""
        level = FEATURES.get(name, 1)
        while self._truth.metadata.features.get(name, 0) < level:
            await self._set_feature(name, level)
            await asyncio.sleep(0.1)

    async def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """A group has these configs, once this returns."""
        while self._truth.image.group_configs.get(group) != configs:
            await self._set(ResourceType.GROUP, group, configs)
            await asyncio.sleep(0.1)

    async def copy_again(self) -> None:
        """Every topic is copied to the tier again, once this returns."""
        while paused := [name for name in self.side_topics if self._is_paused(name)]:
            for name in paused:
                await self._set(ResourceType.TOPIC, name, self._copying(is_paused=False))
            await asyncio.sleep(0.1)

    async def keep_for_ever(self, name: str) -> None:
        """Nothing of a topic expires any longer, once this returns."""
        for key in ("retention.ms", "retention.bytes"):
            while self._truth.image.topics[name].configs.get(key) != "-1":
                await self._set(ResourceType.TOPIC, name, {key: "-1"})
                await asyncio.sleep(0.1)

    async def move_replica(self, broker_id: int) -> None:
        """Some partition gets a replica on this broker, in the place of its last one."""
        without = [
            (partition, now) for partition, now in _partitions(self._truth.image) if broker_id not in now.replicas
        ]
        if without:
            partition, now = self._rng.choice(without)
            await self._assign(partition, (*now.replicas[:-1], broker_id))

    async def rescue(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            for partition, registration in _partitions(self._truth.image):
                if registration.leader == NO_LEADER and self._asks_for_rescue(partition, registration):
                    await self._rescue(partition, registration)
                else:
                    self._leaderless_since_s.pop(partition, None)

    async def move_leaders(self) -> None:
        """Another live in-sync replica leads each partition that has one."""
        image = self._truth.image
        for partition, now in _partitions(image):
            others = [each for each in now.isr if each != now.leader and _is_live(image, each)]
            if others and set(now.isr) == set(now.replicas):
                first = self._rng.choice(others)
                await self._assign(partition, (first, *(each for each in now.replicas if each != first)))
                await self._elect(partition.topic_partition, PREFERRED)

    @property
    def brokers(self) -> Brokers:
        """What gives the brokers by id, None for one that is down."""
        return self._brokers

    async def close(self) -> None:
        await self._client.close()
        await self._producer.close()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def anomalies(self) -> list[Anomaly]:
        """Acknowledged decisions that are not there, once everything is at rest."""
        image = self._truth.image
        found = []
        for name, exists in sorted(self._exists.items()):
            if name not in self._uncertain and (name in image.topics) != exists:
                found.append(Anomaly("lost decision", name, f"it was {'created' if exists else 'deleted'}"))
        for partition, wanted in self._targets.items():
            now = image.partition(partition.topic_partition)
            is_same = image.topic_names.get(partition.topic_id) == partition.topic
            if is_same and str(partition) not in self._uncertain and now is not None and now.replicas != wanted:
                detail = f"replicas {wanted} were accepted, {now.replicas} are there"
                found.append(Anomaly("lost reassignment", str(partition.topic_partition), detail))
        return found

    @property
    def filled(self) -> list[TopicIdPartition]:
        """What is there of what it has sent records to."""
        names = self._truth.image.topic_names
        return [each for each in self._produced if names.get(each.topic_id) == each.topic]

    def acknowledged(self, partition: TopicIdPartition) -> Mapping[int, tuple[int, int]]:
        """What one of `filled` has acknowledged by offset: number, and when it was sent."""
        return self._produced[partition]

    def hosting(self, partition: TopicIdPartition) -> set[int]:
        """The brokers that host this incarnation: one that is cut off may have an older one of that name still."""
        running = {node_id: broker for node_id, broker in self._brokers().items() if broker is not None}
        hosted = {
            node_id: broker.hosted.partitions.get(partition.topic_partition) for node_id, broker in running.items()
        }
        return {node_id for node_id, each in hosted.items() if each is not None and each.partition == partition}

    def lost_from(
        self, partition: TopicIdPartition, log: FinalLog, allowed: AllowedLosses, deleted_end: int = 0
    ) -> list[Anomaly]:
        """Acknowledged records missing from the log of one of `filled`, less allowed losses and deleted records."""
        lost = [
            offset
            for offset, (number, sent_ms) in self._produced[partition].items()
            if log.values.get(offset) != number
            and not min(deleted_end, log.start_offset) > offset
            and not allowed.covers(offset, sent_ms, sent_ms)
        ]
        detail = f"offsets {lost} were acknowledged, and are not in [{log.start_offset}, {log.end_offset})"
        return [Anomaly("lost write", str(partition.topic_partition), detail)] if lost else []

    # -- jobs ---------------------------------------------------------------------------------------------------------

    @property
    def side_topics(self) -> list[str]:
        """The side topics that are there."""
        return [name for name in SIDE_TOPICS if name in self._truth.image.topics]

    async def come(self, rng: Random) -> None:
        """Create a side topic that is not there, and send it a few segments."""
        name = rng.choice([name for name in SIDE_TOPICS if name not in self._truth.image.topics])
        await self._fill(name, rng)

    async def _fill(self, name: str, rng: Random) -> None:
        brokers = sorted(self._brokers())
        replicas = rng.sample(brokers, rng.randint(2, len(brokers)))
        await self._create(name, [replicas], self._side_configs)
        for number in range(SIDE_BATCHES):
            if name not in self._truth.image.topics:
                return
            await self.produce(TopicPartition(name, 0), number)

    async def replace(self, rng: Random) -> None:
        """Delete a side topic, and at once create another one of that name; where there is none, create one."""
        if not self.side_topics:
            await self.come(rng)
            return
        name = rng.choice(self.side_topics)
        topic_id = self._truth.image.topics[name].topic_id
        await self._delete(name)
        if topic_id not in self._truth.image.topic_names:
            await self._fill(name, rng)
            self.changed["topics replaced"] += name in self._truth.image.topics

    async def go(self, rng: Random) -> None:
        """Delete a side topic."""
        await self._delete(rng.choice(self.side_topics))

    async def _delete(self, name: str) -> None:
        topics = (DeleteTopicState(name=name, topic_id=None),)
        request = self._doubt(name)
        answer = await self._ask(DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        code = None if answer is None else answer.responses[0].error_code
        self.changed["topics deleted"] += code is ErrorCode.none
        if code in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
            self._settle(name, request, exists=False)

    async def grow(self, rng: Random) -> None:
        """Add a partition to a side topic."""
        name = rng.choice(self.side_topics)
        count = len(self._truth.image.topics[name].partitions) + 1
        grown = CreatePartitionsTopic(name=name, count=count, assignments=None)
        answer = await self._ask(CreatePartitionsRequest(topics=(grown,), timeout_ms=TIMEOUT_MS, validate_only=False))
        self.changed["partitions added"] += answer is not None and answer.results[0].error_code is ErrorCode.none
        await self.produce(TopicPartition(name, count - 1), 0)

    async def reassign(self, rng: Random) -> None:
        """Give a partition other replicas, or the same in another order."""
        partition, now = rng.choice(list(_partitions(self._truth.image)))
        brokers = sorted(self._brokers())
        await self._assign(partition, tuple(rng.sample(brokers, len(set(now.replicas) & set(brokers)) or 1)))

    @property
    def reassigning(self) -> list[TopicIdPartition]:
        """The partitions whose replicas are being replaced."""
        return [
            partition
            for partition, _ in _partitions(self._truth.image)
            if (now := self._registered(partition)) is not None and now.is_reassigning
        ]

    def _registered(self, partition: TopicIdPartition) -> ControllersRegistration | None:
        """The partition as controllers have it."""
        return self._truth.metadata.partition(PartitionKey(partition.topic_id, partition.partition))

    async def cancel(self, rng: Random) -> None:
        """Have a partition keep the replicas that it had before its reassignment."""
        await self._assign(rng.choice(self.reassigning), None)

    async def elect(self, rng: Random) -> None:
        """Have the preferred replica of a partition elected."""
        partition, _ = rng.choice(list(_partitions(self._truth.image)))
        self.changed["preferred leaders elected"] += await self._elect(partition.topic_partition, PREFERRED)

    async def switch(self, rng: Random) -> None:
        """Switch what empty followers ask for, on all brokers."""
        await self._set(ResourceType.BROKER, "", {SWITCH: rng.choice(("true", "false"))})

    async def configure(self, rng: Random) -> None:
        """Set a config of a side topic."""
        name = rng.choice(self.side_topics)
        key = rng.choice(list(CONFIGS))
        value = rng.choice(CONFIGS[key])
        if (key, value) == LOG_APPEND_TIME:
            self.restamped.add(self._truth.image.topics[name].topic_id)
        await self._set(ResourceType.TOPIC, name, {key: value})

    async def switch_unclean(self, name: str) -> None:
        """Allow unclean elections of a topic; or no longer, if they were."""
        was_on = self._truth.image.topics[name].configs.get(UNCLEAN_KEY) == "true"
        await self._set(ResourceType.TOPIC, name, {UNCLEAN_KEY: str(not was_on).lower()})

    async def pause_copying(self, rng: Random) -> None:
        """Have a side topic no longer copied to the tier; or again, if it was not."""
        name = rng.choice(self.side_topics)
        await self._set(ResourceType.TOPIC, name, self._copying(is_paused=not self._is_paused(name)))

    def _copying(self, *, is_paused: bool) -> dict[str, str]:
        """What is no longer copied has to stay in the local log."""
        local_ms = "-2" if is_paused else self._side_configs["local.retention.ms"]
        return {COPY_DISABLE: str(is_paused).lower(), "local.retention.ms": local_ms}

    def _is_paused(self, name: str) -> bool:
        return self._truth.image.topics[name].configs.get(COPY_DISABLE) == "true"

    async def switch_feature(self, rng: Random) -> None:
        """Set the level of a feature."""
        name = rng.choice(list(self._features))
        await self._set_feature(name, rng.randint(0, self._features[name]))

    def level_of(self, name: str) -> int:
        """The level at which the cluster has a feature."""
        return self._truth.metadata.features.get(name, 0)

    async def raise_to(self, name: str, highest: int, rng: Random) -> None:
        """Raise the level of a feature, that far at most."""
        await self._set_feature(name, rng.randint(self.level_of(name) + 1, highest))

    # -- parts of jobs ------------------------------------------------------------------------------------------------

    async def _set_feature(self, name: str, level: int) -> None:
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=FEATURE_SAFE_DOWNGRADE)
        answer = await self._ask(UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=(update,)))
        self.changed["features switched"] += answer is not None and answer.error_code is ErrorCode.none

    async def _set(self, resource_type: ResourceType, resource_name: str, configs: Mapping[str, str]) -> None:
        entries = tuple(
            IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in configs.items()
        )
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=resource_type, resource_name=resource_name, configs=entries
        )
        answer = await self._ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))
        is_set = answer is not None and answer.responses[0].error_code is ErrorCode.none
        kind = "brokers" if resource_type is ResourceType.BROKER else "topics"
        self.changed[f"configs of {kind} set"] += is_set

    async def _create(self, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(replicas))
                for number, replicas in enumerate(assignments)
            ),
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )
        request = self._doubt(name)
        answer = await self._ask(CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
        code = None if answer is None else answer.topics[0].error_code
        self.changed["topics created"] += code is ErrorCode.none
        if code in (ErrorCode.none, ErrorCode.topic_already_exists):
            self._settle(name, request, exists=True)

    def _doubt(self, name: str) -> int | None:
        """A request about it begins: which one it is, None if something was in doubt before."""
        was_certain = name not in self._uncertain
        self._uncertain.add(name)
        self._requests[name] += 1
        return self._requests[name] if was_certain else None

    def _settle(self, name: str, request: int | None, *, exists: bool) -> None:
        """As this request was answered, unless another one began meanwhile: it is unknown which of them came last."""
        if request == self._requests[name]:
            self._uncertain.discard(name)
            self._exists[name] = exists

    async def produce(
        self,
        partition: TopicPartition,
        number: int,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
    ) -> None:
        """Send a record to a side topic; it must be there in the end if acks=all acknowledged it."""
        value = side_value(number, self._incarnation_of(partition.topic))
        batch = build_batch([Record(0, EPOCH_MS + number, None, value)], base_offset=0, compression=compression)
        sent_ms = int(asyncio.get_running_loop().time() * 1000)
        with suppress(AttemptFailedError, KafkaError):
            topic_id, offset = await self._producer.produce_where(partition, batch, acks)
            if acks == ACKS_ALL:
                written_to = TopicIdPartition(topic_id, partition.topic, partition.partition)
                self._produced.setdefault(written_to, {})[offset] = (number, sent_ms)

    def _incarnation_of(self, name: str) -> int:
        """Which incarnation of a side topic the cluster has now: 0 for none."""
        topic = self._truth.image.topics.get(name)
        return 0 if topic is None else self._incarnations.setdefault(topic.topic_id, len(self._incarnations) + 1)

    async def _assign(self, partition: TopicIdPartition, replicas: tuple[int, ...] | None) -> None:
        """Assign these, None to cancel. One after the other, or it would be unknown which came last."""
        asked = ReassignablePartition(partition_index=partition.partition, replicas=replicas)
        topic = ReassignableTopic(name=partition.topic, partitions=(asked,))
        async with self._assigning:
            request = self._doubt(str(partition))
            before = self._registered(partition)
            answer = await self._ask(AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,)))
            if answer is None or answer.error_code is not ErrorCode.none or request is None:
                return
            self._uncertain.discard(str(partition))
            if answer.responses[0].partitions[0].error_code is not ErrorCode.none:
                return
            if replicas is not None:
                self.changed["reassignments accepted"] += 1
                self._targets[partition] = replicas
            elif before is not None:
                self.changed["reassignments cancelled"] += 1
                self._targets[partition] = tuple(each for each in before.replicas if each not in before.adding_replicas)

    async def _elect(self, partition: TopicPartition, election: int) -> bool:
        """Whether it is known to be over, one way or the other."""
        asked = (ElectLeadersRequestTopicPartitions(topic=partition.topic, partitions=(partition.partition,)),)
        answer = await self._ask(
            ElectLeadersRequest(election_type=election, topic_partitions=asked, timeout_ms=TIMEOUT_MS)
        )
        if answer is None or answer.error_code is not ErrorCode.none:
            return False
        codes = {result.error_code for topic in answer.replica_election_results for result in topic.partition_result}
        return ErrorCode.request_timed_out not in codes

    def _asks_for_rescue(self, partition: TopicIdPartition, registration: PartitionRegistration) -> bool:
        """Whether no member of the ISR will lead by itself, as the reasons of the live brokers say."""
        brokers = [self._brokers().get(each) for each in registration.isr if _is_live(self._truth.image, each)]
        reasons = [
            broker.hosted.failures.get(partition.topic_partition, "") for broker in brokers if broker is not None
        ]
        return len(reasons) == len(registration.isr) and all(LOSS_TO_ACCEPT in reason for reason in reasons)

    async def _rescue(self, partition: TopicIdPartition, registration: PartitionRegistration) -> None:
        now_s = asyncio.get_running_loop().time()
        since_s = self._leaderless_since_s.setdefault(partition, now_s)
        ends = {each: end for each in registration.replicas if (end := self._end(each, partition)) is not None}
        waits_s = RESCUE_AFTER_S if len(ends) == len(registration.replicas) else RESCUE_LATEST_S
        if now_s - since_s < waits_s or not ends:
            return
        best = max(ends, key=lambda each: (*ends[each], -each))
        self._record("administrator", f"{partition.topic_partition}: {best} shall lead, of {ends}")
        await self._assign(partition, (best, *(each for each in registration.replicas if each != best)))
        key, is_answered = PartitionKey(partition.topic_id, partition.partition), False
        self._truth.asked.begins(key)
        try:
            is_answered = await self._elect(partition.topic_partition, UNCLEAN)
        finally:
            self._truth.asked.ends(key, is_answered=is_answered)

    def _end(self, broker_id: int, partition: TopicIdPartition) -> tuple[int, int] | None:
        """Latest epoch and log end of a live replica."""
        broker = self._brokers().get(broker_id)
        if broker is None or not _is_live(self._truth.image, broker_id):
            return None
        hosted = broker.hosted.partitions.get(partition.topic_partition)
        return None if hosted is None else (hosted.log.state.epochs.latest_epoch, hosted.log.state.log_end_offset)

    async def _ask(self, request: Request[ResponseT]) -> ResponseT | None:
        """Return the answer of a broker, of one that serves if there is one; None if there is no answer."""
        serving = [Address(each.host, each.port) for each in self._truth.image.brokers.values() if not each.fenced]
        address = self._rng.choice(serving or self._addresses)
        try:
            return await self._client.send(address, request, timeout_s=TIMEOUT_S)
        except OUTSIDE:
            return None


def side_value(number: int, incarnation: int) -> bytes:
    """Return the value of a record. It says for which incarnation of its topic it was sent: else the same job would
    send both the same bytes, to the same offsets, in the same leader epoch.
    """
    return number.to_bytes(8, "big") + incarnation.to_bytes(8, "big") + bytes(SIDE_VALUE_BYTES - 8)


def _partitions(image: ClusterImage) -> list[tuple[TopicIdPartition, PartitionRegistration]]:
    return [
        (topic.id_partition(number), topic.partitions[number])
        for _, topic in sorted(image.topics.items())
        for number in sorted(topic.partitions)
    ]


def _is_live(image: ClusterImage, broker_id: int) -> bool:
    return broker_id in image.brokers and not image.brokers[broker_id].fenced
