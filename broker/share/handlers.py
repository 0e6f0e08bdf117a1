"""ShareFetch and ShareAcknowledge: sessions, what is acknowledged, what is fetched, and the answer of both.

| request | what is done, in this order |
|---|---|
| ShareFetch | the session; acknowledgements begin; records are fetched, unless locks are renewed; both are answered |
| ShareAcknowledge | the session; acknowledgements are written, and answered |
| either with epoch -1 | acknowledgements are written; then the session ends, and the rest of its locks is given back |

While `share.version` is 0 both are answered UNSUPPORTED_VERSION, as by Apache Kafka.

| a partition's acknowledgement | answer |
|---|---|
| batches that overlap, or are out of order; a type that is none | INVALID_REQUEST |
| of records that the member has not locked | INVALID_RECORD_STATE |
| in a partition that is not led here | NOT_LEADER_OR_FOLLOWER, with the leader |
| that cannot be written | as `live` says; the records stay locked |

More sessions than are allowed: the answer waits as long as the request would have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.share_records import (
    AcquiredRecords,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseLeaderIdAndEpoch,
    ShareAcknowledgeResponseNodeEndpoint,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponse,
    ShareFetchResponseLeaderIdAndEpoch,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartitionData,
)
from ...protocol.net import RequestContext
from ...protocol.wire import ZERO_UUID, LeaderIdAndEpoch
from ..replicas.hosted_partitions import HostedPartitions
from .core.acknowledgements import Acknowledged, AcknowledgementBatch, acknowledged_ranges
from .core.partition import AcquireLimits
from .core.sessions import FINAL_EPOCH, ConnectionKey, SessionChanges, SessionKey, SharedPartition
from .fetching import Found, FoundAll, ShareFetching, ShareQuota, ShareWants, turn_of
from .partitions import SharePartitions
from .persister import ShareKey

LIMIT_WAIT_MS_MAX: Final = 5_000
"""How long a member beyond the limit of sessions waits for its answer at most."""
STRICT: Final = 1
"""The acquire mode in which `max.records` is never exceeded (KIP-1206)."""
UNKNOWN_LEADER: Final = LeaderIdAndEpoch(-1, -1)

_WRONG_BROKER: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
_Batches = Iterable[ShareFetchRequestAcknowledgementBatch | ShareAcknowledgeRequestAcknowledgementBatch]


@dataclass(slots=True)
class _Acknowledging:
    """One partition's acknowledgement under way: an error, or what is done once it holds."""

    ranges: Sequence[Acknowledged] = ()
    error: KafkaError | None = None
    written: asyncio.Future[None] | None = None


class ShareHandlers:
    """`is_enabled` says whether the cluster has share groups."""

    def __init__(
        self,
        hosted: HostedPartitions,
        shares: SharePartitions,
        fetching: ShareFetching,
        is_enabled: Callable[[], bool],
        *,
        response_bytes_max: int,
        quota: ShareQuota | None,
    ) -> None:
        self._hosted = hosted
        self._shares = shares
        self._fetching = fetching
        self._is_enabled = is_enabled
        self._response_bytes_max = response_bytes_max
        self._quota = quota

    # ShareFetch.

    async def share_fetch(self, context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
        batches: dict[SharedPartition, list[AcknowledgementBatch]] = {}
        wanted: list[SharedPartition] = []
        for topic in request.topics:
            for item in topic.partitions:
                shared = SharedPartition(topic.topic_id or ZERO_UUID, item.partition_index)
                wanted.append(shared)
                _add(batches, shared, item.acknowledgement_batches)
        forgotten = [
            SharedPartition(topic.topic_id or ZERO_UUID, number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]
        try:
            self._check_enabled()
            key = _session_key(request)
            changes = SessionChanges(wanted, forgotten, bool(batches))
            session = self._shares.begin_fetch(key, request.share_session_epoch, _connection(context), changes)
        except KafkaError as error:
            return await _refused(error, request.max_wait_ms)
        is_final = request.share_session_epoch == FINAL_EPOCH
        acknowledging = self._begin(context, key, batches, may_renew=request.is_renew_ack)
        found = FoundAll()
        try:
            if not is_final and not request.is_renew_ack and request.max_records > 0:
                found = await self._fetching.fetch(context, self._wants(context, request, key), session)
            await self._settle(acknowledging)
            if is_final:
                self._shares.end_session(key, was_given=False)
            return await self._fetched(context, key, found, acknowledging)
        except BaseException:
            found.release()
            raise

    def _wants(self, context: RequestContext, request: ShareFetchRequest, key: SessionKey) -> ShareWants:
        bound = None if self._quota is None else self._quota.fetch_bytes_max(context)
        bytes_max = max(0, request.max_bytes)
        bytes_max = min(bytes_max, self._response_bytes_max, bytes_max if bound is None else bound)
        return ShareWants(
            member=key.member_id,
            group_id=key.group_id,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, bytes_max),
            max_bytes=bytes_max,
            limits=AcquireLimits(request.max_records, request.batch_size, request.share_acquire_mode == STRICT),
        )

    async def _fetched(
        self,
        context: RequestContext,
        key: SessionKey,
        found: FoundAll,
        acknowledging: Mapping[SharedPartition, _Acknowledging],
    ) -> ShareFetchResponse:
        topics: dict[UUID, list[ShareFetchResponsePartitionData]] = {}
        hints: set[LeaderIdAndEpoch] = set()
        for number, shared in enumerate(dict.fromkeys((*found.partitions, *acknowledging))):
            await turn_of(number)
            fetched = found.partitions.get(shared, Found())
            acknowledged = acknowledging.get(shared, _Acknowledging()).error
            hint = self._hint(shared, (fetched.error, acknowledged), hints)
            answer = ShareFetchResponsePartitionData(
                partition_index=shared.number,
                error_code=_code(fetched.error),
                error_message=_message(fetched.error),
                acknowledge_error_code=int(_code(acknowledged)),
                acknowledge_error_message=_message(acknowledged),
                current_leader=ShareFetchResponseLeaderIdAndEpoch(
                    leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
                ),
                # The codec writes any part; a slice is released once it is sent (`codec.release_response`).
                records=cast("bytes", fetched.records),
                acquired_records=tuple(
                    AcquiredRecords(first_offset=item.first, last_offset=item.last, delivery_count=item.delivery_count)
                    for item in fetched.acquired
                ),
            )
            topics.setdefault(shared.topic_id, []).append(answer)
        return ShareFetchResponse(
            throttle_time_ms=found.throttle_ms,
            acquisition_lock_timeout_ms=self._lock_ms(key),
            responses=tuple(
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            node_endpoints=tuple(
                ShareFetchResponseNodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in self._hosted.endpoints(hints, context.listener)
            ),
        )

    # ShareAcknowledge.

    async def share_acknowledge(
        self, context: RequestContext, request: ShareAcknowledgeRequest
    ) -> ShareAcknowledgeResponse:
        batches: dict[SharedPartition, list[AcknowledgementBatch]] = {}
        for topic in request.topics:
            for item in topic.partitions:
                shared = SharedPartition(topic.topic_id or ZERO_UUID, item.partition_index)
                batches.setdefault(shared, [])
                _add(batches, shared, item.acknowledgement_batches)
        try:
            self._check_enabled()
            key = _session_key(request)
            self._shares.sessions.begin_acknowledge(key, request.share_session_epoch, _connection(context))
        except KafkaError as error:
            return ShareAcknowledgeResponse(
                error_code=error.code, error_message=error.message, responses=(), node_endpoints=()
            )
        acknowledging = self._begin(context, key, batches, may_renew=request.is_renew_ack)
        await self._settle(acknowledging)
        if request.share_session_epoch == FINAL_EPOCH:
            self._shares.end_session(key, was_given=False)
        return self._acknowledged(context, key, acknowledging)

    def _acknowledged(
        self, context: RequestContext, key: SessionKey, acknowledging: Mapping[SharedPartition, _Acknowledging]
    ) -> ShareAcknowledgeResponse:
        topics: dict[UUID, list[ShareAcknowledgeResponsePartitionData]] = {}
        hints: set[LeaderIdAndEpoch] = set()
        for shared, each in acknowledging.items():
            hint = self._hint(shared, (each.error,), hints)
            answer = ShareAcknowledgeResponsePartitionData(
                partition_index=shared.number,
                error_code=_code(each.error),
                error_message=_message(each.error),
                current_leader=ShareAcknowledgeResponseLeaderIdAndEpoch(
                    leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
                ),
            )
            topics.setdefault(shared.topic_id, []).append(answer)
        return ShareAcknowledgeResponse(
            responses=tuple(
                ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            node_endpoints=tuple(
                ShareAcknowledgeResponseNodeEndpoint(
                    node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                )
                for node in self._hosted.endpoints(hints, context.listener)
            ),
            acquisition_lock_timeout_ms=self._lock_ms(key),
        )

    # What both do.

    def _check_enabled(self) -> None:
        if not self._is_enabled():
            raise KafkaError(ErrorCode.unsupported_version, "share groups are off: raise the feature share.version")

    def _begin(
        self,
        context: RequestContext,
        key: SessionKey,
        batches: Mapping[SharedPartition, Sequence[AcknowledgementBatch]],
        *,
        may_renew: bool,
    ) -> dict[SharedPartition, _Acknowledging]:
        """Begin all acknowledgements of a request, in one step."""
        acknowledging: dict[SharedPartition, _Acknowledging] = {}
        for shared, some in batches.items():
            each = acknowledging[shared] = _Acknowledging()
            try:
                if context.rights is not None and not context.rights.may_read(shared.topic_id):
                    raise KafkaError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
                each.ranges = acknowledged_ranges(some, may_renew=may_renew)
                self._hosted.find(*shared).leader()
                live = self._shares.find(ShareKey(key.group_id, *shared))
                if live is None:
                    raise KafkaError(
                        ErrorCode.invalid_record_state, "no record of this partition is locked since leadership began"
                    )
                each.written = live.acknowledge(key.member_id, each.ranges)
            except KafkaError as error:
                each.error = error
        return acknowledging

    async def _settle(self, acknowledging: Mapping[SharedPartition, _Acknowledging]) -> None:
        """Wait until all acknowledgements hold, or have failed."""
        counted = self._shares.counters.acknowledged
        for each in acknowledging.values():
            try:
                if each.written is not None:
                    await each.written
            except KafkaError as error:
                each.error = error
            if each.error is None:
                for first, last, kind in each.ranges:
                    counted[kind] += last - first + 1

    def _hint(
        self, shared: SharedPartition, errors: Iterable[KafkaError | None], hints: set[LeaderIdAndEpoch]
    ) -> LeaderIdAndEpoch:
        """Return the leader of a partition that is asked of the wrong broker, which the answer names."""
        hint = None
        if any(error is not None and error.code in _WRONG_BROKER for error in errors):
            hint = self._hosted.leader_hint(*shared)
        if hint is None:
            return UNKNOWN_LEADER
        hints.add(hint)
        return hint

    def _lock_ms(self, key: SessionKey) -> int:
        return self._shares.settings_of(key.group_id).records.lock_ms


def _session_key(request: ShareFetchRequest | ShareAcknowledgeRequest) -> SessionKey:
    if not request.group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a share group has an id")
    if not request.member_id:
        raise KafkaError(ErrorCode.invalid_request, "a member of a share group has an id")
    return SessionKey(request.group_id, request.member_id)


def _connection(context: RequestContext) -> ConnectionKey:
    return ConnectionKey(context.listener, context.connection_id)


def _add(batches: dict[SharedPartition, list[AcknowledgementBatch]], shared: SharedPartition, some: _Batches) -> None:
    for each in some:
        batches.setdefault(shared, []).append(
            AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
        )


async def _refused(error: KafkaError, max_wait_ms: int) -> ShareFetchResponse:
    if error.code is ErrorCode.share_session_limit_reached:
        await asyncio.sleep(min(max(max_wait_ms, 0), LIMIT_WAIT_MS_MAX) / 1000)
    return share_fetch_failed(error.code, error.message)


def share_fetch_failed(code: ErrorCode, message: str | None = None) -> ShareFetchResponse:
    """Return a response that is an error."""
    return ShareFetchResponse(
        error_code=code, error_message=message, acquisition_lock_timeout_ms=0, responses=(), node_endpoints=()
    )


def _code(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.none if error is None else error.code


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.message
