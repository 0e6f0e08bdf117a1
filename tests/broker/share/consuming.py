"""A member of a share group that speaks to the handlers, and the scene of one broker with real logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tierfetch.broker.handlers.offsets import OffsetHandlers
from tierfetch.broker.handlers.tier_reads import RemoteReads
from tierfetch.broker.share.fetching import ShareQuota
from tierfetch.broker.share.parts import ShareGroups
from tierfetch.broker.share.settings import GroupShareSettings, OffsetReset, ShareLimits
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import release_response
from tierfetch.protocol.messages.share_records import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponse,
)
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.wire.primitives import ZERO_UUID
from tierfetch.tests.broker.hosting import NOW_MS, Host
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.fakes.share_persister import FakeSharePersister

GROUP = "group"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Batch = tuple[int, int, Sequence[int]]
"""First offset, last offset, types."""


class Scene:
    """Share groups on the host; every group begins at the start of the log."""

    def __init__(
        self,
        host: Host,
        *,
        quota: ShareQuota | None = None,
        sessions_max: int = 10,
        remote: RemoteReads | None = None,
    ) -> None:
        self.host = host
        self.persister = FakeSharePersister()
        self.settings = GroupShareSettings(reset=OffsetReset.EARLIEST)
        self.is_enabled = True
        self.groups = ShareGroups(
            host.hosted,
            self.persister,
            lambda: self.is_enabled,
            lambda _: self.settings,
            ShareLimits(sessions_max=sessions_max),
            OffsetHandlers(host.hosted, None, search_timeout_ms=1_000),
            remote,
            quota,
            lambda: NOW_MS,
        )

    @property
    def handlers(self) -> Any:
        return self.groups.handlers


@dataclass
class Fetched:
    """What one partition was answered."""

    error: int = 0
    acknowledge_error: int = 0
    acquired: tuple[tuple[int, int, int], ...] = ()
    base_offsets: tuple[int, ...] = ()
    leader: int = -1


async def fetched(response: ShareFetchResponse) -> dict[tuple[UUID | None, int], Fetched]:
    """Return what each partition was answered; slices are read and released."""
    found = {}
    for topic in response.responses:
        for item in topic.partitions:
            records: Any = item.records
            data = await records.read() if isinstance(records, LogSlice) else bytes(records)
            found[topic.topic_id, item.partition_index] = Fetched(
                int(item.error_code),
                item.acknowledge_error_code,
                tuple((each.first_offset, each.last_offset, each.delivery_count) for each in item.acquired_records),
                tuple(header.base_offset for _, header in iter_batches(data)),
                item.current_leader.leader_id,
            )
    release_response(response)
    return found


def share_fetch(
    member: str, epoch: int, topics: Iterable[FetchTopic], *, forgotten: Iterable[ForgottenTopic] = (), **fields: Any
) -> ShareFetchRequest:
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 1_000, "batch_size": 1_000, **fields}
    return ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        topics=tuple(topics),
        forgotten_topics_data=tuple(forgotten),
        **values,
    )


class Member:
    """`connection` is the number of its connection."""

    def __init__(self, scene: Scene, name: str, *topic_ids: UUID | None, connection: int = 1) -> None:
        self.scene = scene
        self.name = name
        self.topic_ids = topic_ids
        self.epoch = 0
        self.context = context_of(ApiKey.SHARE_FETCH, 2)
        object.__setattr__(self.context, "connection_id", connection)

    async def ask(self, *batches: Batch, **fields: Any) -> ShareFetchResponse:
        """Fetch from all its topics, and acknowledge in the first."""
        request = share_fetch(self.name, self.epoch, self._topics(batches), **fields)
        response: ShareFetchResponse = await self.scene.handlers.share_fetch(self.context, request)
        self.epoch += 1
        return response

    async def fetch(self, *batches: Batch, **fields: Any) -> Fetched:
        """As `ask`; return the answer of the first topic."""
        answers = await fetched(await self.ask(*batches, **fields))
        return answers.get((self.topic_ids[0] or ZERO_UUID, 0), Fetched())

    async def acknowledge(self, *batches: Batch, epoch: int | None = None, renews: bool = False) -> int:
        """Return the error of the first topic's partition, or of the request."""
        response = await self.ask_to_acknowledge(*batches, epoch=epoch, renews=renews)
        if response.error_code:
            return int(response.error_code)
        return int(response.responses[0].partitions[0].error_code) if response.responses else 0

    async def ask_to_acknowledge(
        self, *batches: Batch, epoch: int | None = None, renews: bool = False
    ) -> ShareAcknowledgeResponse:
        some = tuple(
            ShareAcknowledgeRequestAcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=tuple(types)
            )
            for first, last, types in batches
        )
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=some)
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=(AcknowledgeTopic(topic_id=self.topic_ids[0], partitions=(partition,)),) if batches else (),
            is_renew_ack=renews,
        )
        response: ShareAcknowledgeResponse = await self.scene.handlers.share_acknowledge(self.context, request)
        self.epoch += 1
        return response

    def _topics(self, batches: Sequence[Batch]) -> Iterable[FetchTopic]:
        if self.epoch and not batches:
            return ()
        some = tuple(
            ShareFetchRequestAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
            for first, last, types in batches
        )
        return [
            FetchTopic(
                topic_id=topic_id,
                partitions=(FetchPartition(partition_index=0, acknowledgement_batches=() if index else some),),
            )
            for index, topic_id in enumerate(self.topic_ids)
        ]
