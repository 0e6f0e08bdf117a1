"""TxnOffsetCommit: offsets that count once the producer's transaction commits (KIP-98, KIP-447).

They are written as a batch of the transaction, and wait for the marker on the group's partition of
`__consumer_offsets`.
What a group answers to its members applies to a producer that names one. It is asked after the transaction is verified,
when nothing is waited for any longer: a member that lost its partitions meanwhile commits nothing, as the one after it
may have read its offsets. So is the topic: an offset is of the topic that had the name when it was sent.

| what goes wrong | code, for all partitions |
|---|---|
| the group is coordinated elsewhere, or does not take it | its error |
| the transaction cannot be verified | as for Produce; to be tried again: COORDINATOR_LOAD_IN_PROGRESS |
| a partition does not exist, or its topic was deleted meanwhile | UNKNOWN_TOPIC_OR_PARTITION, for it alone |
| metadata too large | OFFSET_METADATA_TOO_LARGE, for it alone |
"""

from __future__ import annotations

from typing import Final

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.net import RequestContext
from ..coordinator.log_writer import InTransaction
from ..groups.active_shard import ActiveShard
from ..groups.coordinator import GroupCoordinator, check_group_id
from ..groups.core.events import MemberIdentity
from ..groups.core.records import GroupRecord, OffsetKey, OffsetValue
from ..replicas.leadership import WallClock
from ..transactions.core.events import Producer
from ..transactions.verifier import Question, TransactionVerifier

ABORTABLE_SINCE: Final = 4
"""From this version on clients know TRANSACTION_ABORTABLE."""
ADDS_SINCE: Final = 5
"""From this version on the group's partition is added to the transaction here, not by the client (KIP-890 part 2)."""

Offset = tuple[OffsetKey, OffsetValue]


class TxnOffsetHandler:
    """Answers for the groups that this broker coordinates."""

    def __init__(self, groups: GroupCoordinator, verifier: TransactionVerifier, now_ms: WallClock) -> None:
        self._groups = groups
        self._verifier = verifier
        self._now_ms = now_ms

    async def txn_offset_commit(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        errors: dict[TopicPartition, ErrorCode] = {}
        offsets: list[Offset] = []
        for topic in request.topics:
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.partition_index)
                errors[name] = self._judge(name, partition)
                if errors[name] is ErrorCode.none:
                    offsets.append(self._offset(request.group_id, name, partition))
        error = await self._commit(context, request, offsets, errors) if offsets else ErrorCode.none
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=errors[TopicPartition(topic.name, each.partition_index)] or error,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _judge(self, name: TopicPartition, partition: TxnOffsetCommitRequestPartition) -> ErrorCode:
        if self._groups.view.image.partition(name) is None:
            return ErrorCode.unknown_topic_or_partition
        is_too_large = len(partition.committed_metadata or "") > self._groups.settings.metadata_bytes_max
        return ErrorCode.offset_metadata_too_large if is_too_large else ErrorCode.none

    def _offset(self, group_id: str, name: TopicPartition, partition: TxnOffsetCommitRequestPartition) -> Offset:
        value = OffsetValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=self._now_ms(),
            topic_id=self._groups.view.image.topics[name.topic].topic_id,
        )
        return OffsetKey(group_id, name.topic, name.partition), value

    async def _commit(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        offsets: list[Offset],
        errors: dict[TopicPartition, ErrorCode],
    ) -> ErrorCode:
        """Return the error of all, and note those of some in `errors`."""
        producer = Producer(request.producer_id, request.producer_epoch)
        adds = context.api_version >= ADDS_SINCE
        try:
            check_group_id(request.group_id)
            active = self._groups.shard_for(request.group_id)
            question = Question(request.transactional_id, producer, adds)
            knows_abortable = context.api_version >= ABORTABLE_SINCE
            guard = await self._verifier.verify(active.partition, question, knows_abortable=knows_abortable)
            if self._groups.shard_for(request.group_id) is not active:
                raise KafkaError(ErrorCode.not_coordinator, f"{request.group_id!r} was loaded again meanwhile")
            error = self._judge_member(active, request, offsets)
            if error is not ErrorCode.none:
                return error
            records: list[GroupRecord] = []
            for key, value in offsets:
                if self._is_there(key, value):
                    records.append(GroupRecord(key, value))
                else:
                    errors[TopicPartition(key.topic, key.partition)] = ErrorCode.unknown_topic_or_partition
            if records:
                await active.write(records, InTransaction(producer.producer_id, producer.epoch, guard))
        except KafkaError as refusal:
            # Clients of groups do not know the code that has producers try again.
            is_retried = refusal.code is ErrorCode.not_enough_replicas
            return ErrorCode.coordinator_load_in_progress if is_retried else refusal.code
        return ErrorCode.none

    def _is_there(self, key: OffsetKey, value: OffsetValue) -> bool:
        topic = self._groups.view.image.topics.get(key.topic)
        return topic is not None and topic.topic_id == value.topic_id

    def _judge_member(self, active: ActiveShard, request: TxnOffsetCommitRequest, offsets: list[Offset]) -> ErrorCode:
        who = MemberIdentity(request.member_id, request.group_instance_id)
        topics = self._groups.view.image.topics
        partitions = [
            (topics[key.topic].topic_id if key.topic in topics else None, key.partition) for key, _ in offsets
        ]
        error = active.shard.judge_commit(
            request.group_id, who, request.generation_id, active.now, partitions, in_transaction=True
        )
        # As in Kafka: producers do not know the code of consumers' epochs.
        return ErrorCode.illegal_generation if error is ErrorCode.stale_member_epoch else error
