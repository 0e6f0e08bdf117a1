"""What an operator does to a running cluster at a moment that a seed chooses: a row each.

| kind           | request                                                  | what must hold                           |
|----------------|----------------------------------------------------------|------------------------------------------|
| delete records | DeleteRecords of a partition, up to a committed offset   | what is below an answer's low watermark  |
|                |                                                          | is gone for ever; nothing above goes     |
| min isr        | IncrementalAlterConfigs: `min.insync.replicas`           | commits need that many copies            |
| unregister     | UnregisterBroker of one that is down                     | it is refused while its replicas have no |
|                |                                                          | other place, else it registers again     |
| quota          | AlterClientQuotas of the client `throttled`              | it progresses; no other client is       |
|                |                                                          | throttled                                |
| move directory | AlterReplicaLogDirs of some replicas of a broker         | each is there in the end, or whole where |
|                |                                                          | it was (`judges.directory_moves`)        |

`restart` (controlled shutdown, and a start) is made by the scenario, which has the hosts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final

from ...broker import Broker
from ...broker.cluster import PartitionRegistration
from ...protocol import OUTSIDE, REMOTE_LOG_METADATA_TOPIC, ErrorCode, TopicIdPartition
from ...protocol.messages import Request, ResponseT
from ...protocol.messages.brokers import UnregisterBrokerRequest
from ...protocol.messages.cluster import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from ...protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ...protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ...protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ...protocol.net import Address, KafkaClient
from ...protocol.wire import ResourceType
from ..judges.core.acknowledged_writes import Anomaly
from ..judges.core.events import MoveAnswered, MoveRequested, OperatorEvent, RecordsDeleted
from ..judges.core.throttles import THROTTLED
from ..judges.core.truth import ClusterTruth
from .client import client_ids

TIMEOUT_S: Final = 2.0
TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate")
"""Not `request_percentage`: it measures the CPU, which simulated nodes do not need."""
RATES: Final = (400.0, 1_500.0, 20_000.0)
ATTEMPTS: Final = 4
MOVED_MAX: Final = 3
"""Replicas that one request moves."""
RETRY_S: Final = 0.3
_SET: Final = 0


class Operator:
    """Actions run on the administrator's host. `main_topic` is where all clients are."""

    def __init__(
        self,
        truth: ClusterTruth,
        brokers: Callable[[], Mapping[int, Broker | None]],
        rng: Random,
        *,
        main_topic: str,
        replication_factor: int,
        may_delete_from_main: bool,
        kept: Collection[str] = (),
        publish: Callable[[OperatorEvent], None],
        record: Callable[[str, str], None],
    ) -> None:
        self._truth = truth
        self._brokers = brokers
        self._rng = rng
        self._main_topic = main_topic
        self._replication_factor = replication_factor
        self._kept = frozenset(kept)
        """Topics of which no records are deleted."""
        self._may_delete_from_main = may_delete_from_main
        self._publish = publish
        self._record = record
        self._client = KafkaClient(client_id="operator", random=rng)
        self.changed: Counter[str] = Counter()
        self.deleted: dict[TopicIdPartition, int] = {}
        """The offsets below which records may have been deleted on request."""
        self._low_watermarks: dict[TopicIdPartition, int] = {}
        """The offsets below which they were, as answers say."""

    async def delete_records(self) -> None:
        """Delete records of a partition with a leader, up to an offset that is committed."""
        led = [
            (partition, registration.leader, hosted.log.state.log_start_offset, hosted.log.state.high_watermark)
            for partition, registration in self._partitions()
            if (broker := self._brokers().get(registration.leader)) is not None
            if (hosted := broker.hosted.partitions.get(partition.topic_partition)) is not None
            if hosted.log.state.log_start_offset < hosted.log.state.high_watermark
        ]
        if not led:
            return
        partition, leader, start, end = self._rng.choice(led)
        offset = self._rng.randint(start, start + (end - start + 1) // 2)
        asked = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        self.deleted[partition] = max(offset, self.deleted.get(partition, 0))
        self._publish(RecordsDeleted(partition, offset))
        topics = (DeleteRecordsTopic(name=partition.topic, partitions=(asked,)),)
        answer = await self._ask(leader, DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        result = None if answer is None else answer.topics[0].partitions[0]
        if result is not None and self._is_done("records deleted", result.error_code):
            self._low_watermarks[partition] = max(offset, self._low_watermarks.get(partition, 0))

    async def set_min_isr(self) -> None:
        """Set `min.insync.replicas` of the main topic, within its replication factor."""
        value = str(self._rng.randint(1, self._replication_factor))
        entry = IncrementalAlterConfigsRequestAlterableConfig(
            name="min.insync.replicas", config_operation=_SET, value=value
        )
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=self._main_topic, configs=(entry,)
        )
        answer = await self._ask(None, IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))
        self._is_done("min isr set", None if answer is None else answer.responses[0].error_code)

    async def unregister(self, broker_id: int) -> None:
        """Unregister a broker while it is down; the controller refuses as long as it is not fenced."""
        while self._brokers().get(broker_id) is None:
            answer = await self._ask(None, UnregisterBrokerRequest(broker_id=broker_id))
            if self._is_done("brokers unregistered", None if answer is None else answer.error_code):
                return
            await asyncio.sleep(RETRY_S)

    async def set_quota(self) -> None:
        """Set one of the quotas of the client that has some; it is tried until it is set."""
        op = OpData(key=self._rng.choice(QUOTAS), value=self._rng.choice(RATES), remove=self._rng.random() < 0.2)
        entries = tuple(
            AlterClientQuotasRequestEntryData(
                entity=(AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name=name),), ops=(op,)
            )
            for name in client_ids(THROTTLED)
        )
        while True:
            answer = await self._ask(None, AlterClientQuotasRequest(entries=entries, validate_only=False))
            if self._is_done("quotas set", None if answer is None else answer.entries[0].error_code):
                return
            await asyncio.sleep(RETRY_S)

    async def move_directory(self, broker_id: int) -> None:
        """Have some replicas of a broker moved to one of its log directories, which some may be in already. It is asked
        once: a request without an answer may still be carried out.
        """
        broker, registration = self._brokers().get(broker_id), self._truth.image.brokers.get(broker_id)
        hosted = [] if broker is None else sorted(broker.hosted.partitions.values(), key=lambda each: each.partition)
        if broker is None or registration is None or not hosted:
            return
        directory = self._rng.choice(broker.logs.directories).path
        names = [each.partition for each in self._rng.sample(hosted, min(len(hosted), self._rng.randint(1, MOVED_MAX)))]
        topics = tuple(AlterReplicaLogDirTopic(name=name.topic, partitions=(name.partition,)) for name in names)
        request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=str(directory), topics=topics),))
        for name in names:
            self._publish(MoveRequested(name, broker_id, directory))
        try:
            address = Address(registration.host, registration.port)
            answer = await self._client.send(address, request, timeout_s=TIMEOUT_S)
        except OUTSIDE as error:
            self._record("operator", f"replicas moved: no answer: {type(error).__name__}")
            return
        codes = {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in answer.results
            for each in topic.partitions
        }
        for name in names:
            code = codes.get((name.topic, name.partition), ErrorCode.unknown_server_error)
            is_granted = self._is_done(f"replicas moved to {directory}", code)
            self._publish(MoveAnswered(name, broker_id, directory, is_granted))

    async def move_replicas(self) -> None:
        """Have some replicas of each broker moved."""
        for broker_id in sorted(self._brokers()):
            await self.move_directory(broker_id)

    def _is_done(self, what: str, code: ErrorCode | None) -> bool:
        """Whether an action succeeded; `code` is None if there was no answer."""
        self._record("operator", f"{what}: {'no answer' if code is None else code.name}")
        self.changed[what] += code is ErrorCode.none
        return code is ErrorCode.none

    async def close(self) -> None:
        await self._client.close()

    def anomalies(self, may_have_lost: Callable[[TopicIdPartition], bool]) -> list[Anomaly]:
        """Acknowledged deletions that did not last, once everything is at rest."""
        found = []
        names = self._truth.image.topic_names
        for partition, low_watermark in self._low_watermarks.items():
            registration = self._truth.image.partition(partition.topic_partition)
            if names.get(partition.topic_id) != partition.topic or registration is None or may_have_lost(partition):
                continue
            broker = self._brokers().get(registration.leader)
            hosted = None if broker is None else broker.hosted.partitions.get(partition.topic_partition)
            if hosted is not None and hosted.log.state.log_start_offset < low_watermark:
                detail = f"it starts at {hosted.log.state.log_start_offset}, records below {low_watermark} were deleted"
                found.append(Anomaly("deleted records are back", str(partition.topic_partition), detail))
        return found

    def _partitions(self) -> Sequence[tuple[TopicIdPartition, PartitionRegistration]]:
        return [
            (topic.id_partition(number), topic.partitions[number])
            for name, topic in sorted(self._truth.image.topics.items())
            if name != REMOTE_LOG_METADATA_TOPIC
            and name not in self._kept
            and (name != self._main_topic or self._may_delete_from_main)
            for number in sorted(topic.partitions)
        ]

    async def _ask(self, broker_id: int | None, request: Request[ResponseT]) -> ResponseT | None:
        """Return the answer of a broker, of any that serves for None; None if there is no answer."""
        for _ in range(ATTEMPTS):
            serving = {each.id: each for each in self._truth.image.brokers.values() if not each.fenced}
            chosen = [each for each in serving.values() if broker_id in (None, each.id)]
            if chosen:
                broker = self._rng.choice(chosen)
                try:
                    return await self._client.send(Address(broker.host, broker.port), request, timeout_s=TIMEOUT_S)
                except OUTSIDE as error:
                    self._record("operator", f"{type(request).__name__}: no answer: {type(error).__name__}")
            await asyncio.sleep(RETRY_S)
        return None
