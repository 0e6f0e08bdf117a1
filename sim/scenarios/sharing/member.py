"""One member of a share group (KIP-932), as Kafka's clients are: heartbeats at the coordinator, and a session with the
leader of each of its partitions.

    heartbeat: partitions -> leaders -> ShareFetch 0 -> records -> what becomes of each -> ShareFetch, ShareAcknowledge
                  ^                                                                          |
                  +-------------------- errors: another leader, another session <------------+

| of what it is given | it says                                                                     |
|---------------------|-----------------------------------------------------------------------------|
| most                | ACCEPT, with the next fetch or by itself                                     |
| some                | RELEASE or REJECT, for a whole batch or record by record                     |
| a few               | nothing: the lock has to end; or so late that it may have ended              |
| some, while it works | RENEW (KIP-1222), where a seed has it: its lock begins again                |

It goes in order (its sessions are closed, it leaves the group), or it dies with all of its locks. What it is answered
is published: `judges.core.clients.deliveries` judges it. Error codes that no fault explains end the run.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from random import Random
from typing import Final
from uuid import UUID

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, TopicPartition, metadata_of
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.share_groups import ShareGroupHeartbeatRequest
from ....protocol.messages.share_records import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from ....protocol.net import Address, KafkaClient
from ....protocol.records import iter_batches, iter_records
from ...judges.core.clients.share_events import (
    AcknowledgementAnswered,
    AcknowledgementAsked,
    Given,
    Kind,
    RecordsAsked,
    RecordsGiven,
    ShareSession,
    ShareSessionOver,
)
from ...judges.core.events import ClientEvent
from ..client import AttemptFailedError
from ..workers.coordinators import FENCED, OF_GROUPS, CoordinatorClient, LaterError, RejoinError
from ..workload import RETRIABLE, Retries, Shared, UnexpectedError, decode_value

TIMEOUT_S: Final = 4.0
BEAT_S: Final = 0.4
WAIT_MS: Final = 200
RECORDS_MAX: Final = 10
JOINING, LEAVING = 0, -1
CLOSING: Final = -1
RELEASE_SHARE: Final = 0.15
REJECT_SHARE: Final = 0.05
SILENT_SHARE: Final = 0.07
ONE_BY_ONE_SHARE: Final = 0.3
SLOW_SHARE: Final = 0.12
SLOW_S: Final = (0.3, 2.5)
"""Some of these are longer than a lock."""
RENEW_SHARE: Final = 0.25
BEFORE_RENEWAL_S: Final = (0.2, 1.3)
AFTER_RENEWAL_S: Final = (0.3, 1.6)
"""Some of these are longer than a lock."""
APART_SHARE: Final = 0.5
"""The share of acknowledgements that are sent by themselves."""
OF_SESSIONS: Final = frozenset({ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch})
NOT_NOW: Final = RETRIABLE | {ErrorCode.coordinator_not_available, ErrorCode.group_id_not_found}
"""What leaders answer while they, or the share coordinator, are new or cannot be reached."""
Said = dict[TopicPartition, dict[int, Kind]]


@dataclass(slots=True, eq=False)
class _Session:
    """A session with one broker. `said` goes with the next fetch."""

    name: ShareSession
    epoch: int = 0
    partitions: set[TopicPartition] = field(default_factory=set)
    said: Said = field(default_factory=dict)


class ShareMember:
    """`partitions` are those of the one topic that the group reads, `topic_id` is that topic's. `numbers` numbers
    sessions; `is_over` says that nothing is left to do. Close it, whether it has ended or not.
    """

    def __init__(
        self,
        name: str,
        group: str,
        partitions: Sequence[TopicPartition],
        addresses: Sequence[Address],
        shared: Shared,
        rng: Random,
        *,
        topic_id: Callable[[], UUID],
        numbers: Iterator[int],
        is_over: Callable[[], bool],
        renewals: Random | None = None,
    ) -> None:
        """`renewals` draws which locks it renews; None: none."""
        self._name = name
        self._group = group
        self._all = tuple(partitions)
        self._addresses = tuple(addresses)
        self._shared = shared
        self._rng = rng
        self._topic_id = topic_id
        self._numbers = numbers
        self._is_over = is_over
        self._renewals = renewals
        self._client = KafkaClient(client_id=name, random=rng)
        self._coordinators = CoordinatorClient(name, addresses, rng)
        self._epoch = JOINING
        self._beat_ms = 0
        self._assigned: tuple[TopicPartition, ...] = ()
        self._leaders: dict[TopicPartition, Address] = {}
        self._sessions: dict[Address, _Session] = {}
        self.may_go = False
        """Whether it shall leave in order."""

    async def close(self) -> None:
        """End all connections: what it has locked is free."""
        for address in list(self._sessions):
            self._lose(address)
        await self._client.close()
        await self._coordinators.close()

    async def run(self) -> None:
        attempt = Retries(self._rng)
        while not (self._is_over() or self.may_go):
            try:
                await self._beat()
                if not await self._poll_all():
                    await asyncio.sleep(self._rng.uniform(0.05, 0.2))
                attempt = Retries(self._rng)
            except (AttemptFailedError, LaterError, RejoinError):
                await attempt.back_off()
        await self._leave()

    async def _leave(self) -> None:
        for address, session in list(self._sessions.items()):
            if session.epoch:
                with suppress(AttemptFailedError, LaterError):
                    await self._fetch(address, session, (), epoch=CLOSING)
            self._lose(address)
        with suppress(AttemptFailedError, LaterError):
            await self._coordinators.ask(OF_GROUPS, self._group, self._heartbeat(LEAVING))

    # The group.

    async def _beat(self) -> None:
        """Be a member. Raise what `CoordinatorClient.check` raises."""
        if self._shared.now_ms() < self._beat_ms:
            return
        answer = await self._coordinators.ask(OF_GROUPS, self._group, self._heartbeat(self._epoch))
        code = answer.error_code
        if code is ErrorCode.unsupported_version:
            raise LaterError(f"{self._name}: the broker does not know yet that the cluster has share groups")
        if code in FENCED:
            self._epoch, self._assigned = JOINING, ()
        self._coordinators.check(OF_GROUPS, self._group, code, "ShareGroupHeartbeat")
        self._epoch = answer.member_epoch
        self._beat_ms = self._shared.now_ms() + int(BEAT_S * 1000)
        if answer.assignment is not None:
            numbers = [number for topic in answer.assignment.topic_partitions for number in topic.partitions]
            self._assigned = tuple(self._all[number] for number in sorted(numbers))

    def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatRequest:
        topics = (self._all[0].topic,) if epoch == JOINING else None
        return ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self._name, member_epoch=epoch, subscribed_topic_names=topics
        )

    # Records.

    async def _poll_all(self) -> bool:
        """Fetch from the leader of each partition, and work on what comes; whether anything came."""
        by_leader: dict[Address, list[TopicPartition]] = defaultdict(list)
        for partition in self._assigned:
            by_leader[await self._leader(partition)].append(partition)
        has_some = False
        for address, partitions in by_leader.items():
            session = self._sessions.setdefault(address, self._new_session(address))
            if not session.said.keys() <= set(partitions):
                await self._acknowledge(address, session)
            given = await self._fetch(address, session, partitions)
            has_some |= bool(given)
            if given and self._sessions.get(address) is session:
                await self._work(address, session, given)
        return has_some

    def _new_session(self, address: Address) -> _Session:
        return _Session(ShareSession(self._name, address.host, next(self._numbers)))

    async def _leader(self, partition: TopicPartition) -> Address:
        if partition not in self._leaders:
            answer = await self._ask(self._rng.choice(self._addresses), metadata_of([partition.topic]))
            addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.leader_id in addresses and each.partition_index < len(self._all):
                        self._leaders[self._all[each.partition_index]] = addresses[each.leader_id]
        if partition not in self._leaders:
            raise LaterError(f"{self._name}: {partition} has no leader")
        return self._leaders[partition]

    async def _work(self, address: Address, session: _Session, given: Sequence[Given]) -> None:
        """Decide what becomes of records, and say so, some of it later than the lock lasts."""
        if self._renewals is not None and self._renewals.random() < RENEW_SHARE:
            await self._renew(address, session, given, self._renewals)
        if self._rng.random() < SLOW_SHARE and not self._shared.stopping.is_set():
            await self._shared.pause(self._rng.uniform(*SLOW_S))
        for each in given:
            said = session.said.setdefault(each.partition, {})
            is_by_record = self._rng.random() < ONE_BY_ONE_SHARE
            kind = self._drawn()
            for offset in range(each.first, each.last + 1):
                kind = self._drawn() if is_by_record else kind
                if kind is not None:
                    said[offset] = kind
        if self._rng.random() < APART_SHARE:
            await self._acknowledge(address, session)

    def _drawn(self) -> Kind | None:
        drawn = self._rng.random()
        for kind, share in ((Kind.RELEASE, RELEASE_SHARE), (Kind.REJECT, REJECT_SHARE), (None, SILENT_SHARE)):
            drawn -= share
            if drawn < 0:
                return kind
        return Kind.ACCEPT

    async def _renew(self, address: Address, session: _Session, given: Sequence[Given], rng: Random) -> None:
        """Work for a while, renew the locks of all that was given, and work on, some of it for too long."""
        await self._shared.pause(rng.uniform(*BEFORE_RENEWAL_S))
        said: Said = {}
        for each in given:
            said.setdefault(each.partition, {}).update(dict.fromkeys(range(each.first, each.last + 1), Kind.RENEW))
        await self._say(address, session, said, is_renewal=True)
        await self._shared.pause(rng.uniform(*AFTER_RENEWAL_S))

    async def _acknowledge(self, address: Address, session: _Session) -> None:
        said, session.said = {each: kinds for each, kinds in session.said.items() if kinds}, {}
        if said:
            await self._say(address, session, said)

    async def _say(self, address: Address, session: _Session, said: Said, *, is_renewal: bool = False) -> None:
        """One ShareAcknowledge."""
        partitions = tuple(
            AcknowledgePartition(
                partition_index=each.partition,
                acknowledgement_batches=tuple(
                    ShareAcknowledgeRequestAcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in _batches(kinds)
                ),
            )
            for each, kinds in said.items()
        )
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=session.epoch,
            topics=(AcknowledgeTopic(topic_id=self._topic_id(), partitions=partitions),),
            is_renew_ack=is_renewal,
        )
        with _Saying(self._publish, self._shared.now_ms, session.name, said) as saying:
            answer = await self._ask_in(address, request)
            saying.is_answered = True
            self._check(address, session, answer.error_code, "ShareAcknowledge")
            for topic in answer.responses:
                for item in topic.partitions:
                    saying.answered(self._all[item.partition_index], self._known(address, item.error_code))

    async def _fetch(
        self, address: Address, session: _Session, partitions: Sequence[TopicPartition], epoch: int | None = None
    ) -> tuple[Given, ...]:
        """One ShareFetch, with what is said of records; what it gives. Raise AttemptFailedError."""
        said, session.said = {each: kinds for each, kinds in session.said.items() if kinds}, {}
        request = self._request(session, partitions, said, session.epoch if epoch is None else epoch)
        asked_ms = self._shared.now_ms()
        with _Saying(self._publish, self._shared.now_ms, session.name, said) as saying:
            if partitions:
                self._publish(RecordsAsked(session.name, tuple(partitions)))
            answer = await self._ask_in(address, request)
            saying.is_answered = True
            self._check(address, session, answer.error_code, "ShareFetch")
            session.partitions = set(partitions)
            return self._taken(address, session, answer, saying, asked_ms)

    def _request(
        self, session: _Session, partitions: Sequence[TopicPartition], said: Said, epoch: int
    ) -> ShareFetchRequest:
        wanted = [each for each in partitions if each not in session.partitions]
        forgotten = tuple(sorted(each.partition for each in session.partitions.difference(partitions)))
        items = tuple(
            FetchPartition(
                partition_index=each.partition,
                acknowledgement_batches=tuple(
                    ShareFetchRequestAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in _batches(said.get(each, {}))
                ),
            )
            for each in dict.fromkeys((*wanted, *said))
        )
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            topics=(FetchTopic(topic_id=self._topic_id(), partitions=items),) if items else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=self._topic_id(), partitions=forgotten),)
            if forgotten and epoch > 0
            else (),
        )

    def _taken(
        self, address: Address, session: _Session, answer: ShareFetchResponse, saying: _Saying, asked_ms: int
    ) -> tuple[Given, ...]:
        given: list[Given] = []
        filled: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()
        for topic in answer.responses:
            for item in topic.partitions:
                partition = self._all[item.partition_index]
                saying.answered(partition, self._known(address, ErrorCode(item.acknowledge_error_code)))
                if self._known(address, item.error_code) is not ErrorCode.none:
                    failed.add(partition)
                elif item.acquired_records:
                    filled.add(partition)
                given += _given(partition, item)
        empty = tuple(sorted(session.partitions - filled - failed))
        self._publish(RecordsGiven(session.name, tuple(given), empty, asked_ms, tuple(sorted(failed))))
        return tuple(given)

    def _known(self, address: Address, code: ErrorCode) -> ErrorCode:
        """The code of one partition: after an error its leader is looked for again. UnexpectedError."""
        if code is ErrorCode.none or code is ErrorCode.invalid_record_state:
            return code
        if code not in NOT_NOW:
            raise UnexpectedError(f"{self._name}: {address} answers {code.name}")
        self._leaders = {each: leader for each, leader in self._leaders.items() if leader != address}
        return code

    # Requests.

    async def _ask_in(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        """Ask in a session, which is over if there is no answer. Raise AttemptFailedError."""
        try:
            return await self._ask(address, request)
        except AttemptFailedError:
            self._lose(address)
            raise

    async def _ask(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        try:
            return await self._client.send(address, request, timeout_s=TIMEOUT_S)
        except OSError as error:
            self._leaders = {each: leader for each, leader in self._leaders.items() if leader != address}
            raise AttemptFailedError(f"{type(request).__name__} to {address}: {error}") from error

    def _check(self, address: Address, session: _Session, code: ErrorCode, what: str) -> None:
        """Go on in the session, or give it up. Raise LaterError."""
        if code is ErrorCode.none:
            session.epoch += 1
            return
        self._lose(address)
        if code in OF_SESSIONS or code is ErrorCode.unsupported_version:
            raise LaterError(f"{self._name}: {what} to {address}: {code.name}")
        raise UnexpectedError(f"{self._name}: {what} to {address}: {code.name}")

    def _lose(self, address: Address) -> None:
        session = self._sessions.pop(address, None)
        if session is not None:
            self._publish(ShareSessionOver(session.name))

    def _publish(self, event: ClientEvent) -> None:
        self._shared.publish(event)


class _Saying:
    """What is said of records in one request, from before it is sent until its answer is read, or there is none."""

    def __init__(
        self, publish: Callable[[ClientEvent], None], now_ms: Callable[[], int], session: ShareSession, said: Said
    ) -> None:
        self._publish = publish
        self._now_ms = now_ms
        self._session = session
        self._left = {each: tuple(sorted(kinds.items())) for each, kinds in said.items()}
        self._asked_ms = now_ms()
        self.is_answered = False

    def __enter__(self) -> _Saying:
        for partition, kinds in self._left.items():
            self._publish(AcknowledgementAsked(self._session, partition, kinds))
        return self

    def answered(self, partition: TopicPartition, code: ErrorCode) -> None:
        """A partition's answer; the first one counts."""
        kinds = self._left.pop(partition, None)
        if kinds is not None:
            is_kept = code is ErrorCode.none
            is_unclear = not is_kept and code is not ErrorCode.invalid_record_state
            self._say(partition, kinds, is_kept=is_kept, is_unclear=is_unclear)

    def __exit__(self, *_: object) -> None:
        for partition in list(self._left):
            self._say(partition, self._left.pop(partition), is_kept=False, is_unclear=not self.is_answered)

    def _say(
        self, partition: TopicPartition, kinds: tuple[tuple[int, Kind], ...], *, is_kept: bool, is_unclear: bool
    ) -> None:
        event = AcknowledgementAnswered(
            self._session, partition, kinds, self._asked_ms, is_kept=is_kept, is_unclear=is_unclear
        )
        self._publish(event)


def _batches(kinds: dict[int, Kind]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Runs of offsets without a gap, each with its types; one type if all are alike."""
    runs: list[list[int]] = []
    for offset in sorted(kinds):
        if runs and runs[-1][-1] == offset - 1:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    batches = []
    for run in runs:
        types = tuple(int(kinds[offset]) for offset in run)
        batches.append((run[0], run[-1], types[:1] if len(set(types)) == 1 else types))
    return batches


def _given(partition: TopicPartition, item: ShareFetchResponsePartitionData) -> list[Given]:
    values: dict[int, int] = {}
    data = bytes(item.records or b"")
    for at, header in iter_batches(data):
        for record in () if header.is_control else iter_records(data, at, header):
            values[record.offset] = decode_value(record.value or b"")
    return [
        Given(
            partition,
            each.first_offset,
            each.last_offset,
            each.delivery_count,
            tuple(values.get(offset) for offset in range(each.first_offset, each.last_offset + 1)),
        )
        for each in item.acquired_records
    ]
