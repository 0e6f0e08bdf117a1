"""One transactional id, as one process has it: InitProducerId, then transactions over several partitions and a group.

| transaction version | how partitions and offsets join            | what fences what is late                          |
|---------------------|--------------------------------------------|---------------------------------------------------|
| 1                   | AddPartitionsToTxn, AddOffsetsToTxn        | after anything without an answer the producer is  |
|                     |                                            | initialized again, with a bumped epoch            |
| 2 (KIP-890)         | with Produce, TxnOffsetCommit              | each end bumps the epoch                          |

What goes to one partition may be cut into batches that are in flight together, as Java's are. A batch whose outcome is
not known is sent again under its sequence, once no older one is under way; so is EndTxn, until it is certain. Sends and
ends go into the history, as those of all producers. A batch that is out of order although all older ones are
acknowledged is judged as one that was refused for its sequence (`judges.core.client_answers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

from ....protocol import ErrorCode, KafkaError, TopicPartition
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from ....protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ....protocol.records import Compression, Record, build_batch
from ...judges.core.events import (
    CommitAsked,
    OffsetCommitted,
    ProducerInitialized,
    SequenceRefused,
    TransactionCommitted,
)
from ...judges.core.history import ACKS_ALL, Send, TransactionEnd
from ...machine.clock import EPOCH_MS
from ..client import AttemptFailedError, SimClient
from ..workload import RETRIABLE, Retries, Shared, UnexpectedError, encode_value
from .coordinators import (
    ABORTABLE,
    OF_GROUPS,
    OF_TRANSACTIONS,
    SUPERSEDED,
    AbortableError,
    CoordinatorClient,
    LaterError,
    SupersededError,
)
from .members import GroupMember

T = TypeVar("T")

TIMEOUTS_MS: Final = (4_000, 12_000)
"""The first aborts many that are slow; the second leaves them to those who come later."""
PRODUCE_MAX: Final = {1: 11, 2: None}
OFFSETS_MAX: Final = {1: 4, 2: None}
END_MAX: Final = {1: 4, 2: None}
IN_FLIGHT_MAX: Final = 5
"""Batches of one transaction for one partition."""
ANSWER_TURNS: Final = 4
"""The turns of the loop from an answer until the task that waits for it is done."""


class TransactionalProducer:
    """One process under a transactional id that speaks one transaction version. Of one partition it has at most
    `in_flight_max` batches of a transaction in flight.
    """

    def __init__(
        self,
        name: str,
        transactional_id: str,
        version: int,
        client: SimClient,
        coordinators: CoordinatorClient,
        shared: Shared,
        rng: Random,
        *,
        in_flight_max: int = 1,
    ) -> None:
        self._in_flight_max = in_flight_max
        self.name = name
        self.transactional_id = transactional_id
        self._version = version
        self._client = client
        self._coordinators = coordinators
        self._shared = shared
        self._rng = rng
        self._timeout_ms = rng.choice(TIMEOUTS_MS)
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._offsets: list[tuple[str, TopicPartition, int]] = []
        self._transaction = 0

    async def begin(self) -> int:
        """Begin a transaction, after whatever the last one left; return its number in the history."""
        if self._producer is None:
            await self._init()
        self._transaction = next(self._shared.transactions)
        self._added.clear()
        self._offsets.clear()
        return self._transaction

    async def _init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)

        async def init() -> tuple[InitProducerIdResponse, int]:
            asked_ms = self._shared.now_ms()
            answer = await self._ask(request)
            self._check(answer.error_code, "InitProducerId")
            return answer, asked_ms

        answer, asked_ms = await self._until_certain(init)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self._shared.publish(ProducerInitialized(self.transactional_id, *self._producer, asked_ms, self.name))

    async def produce(self, partition: TopicPartition, values: tuple[int, ...]) -> None:
        """Send batches, several at a time, until all are in the log. Raise AbortableError or SupersededError."""
        await self._add(partition)
        await self._locate(partition)
        flights: list[asyncio.Task[None]] = []
        try:
            for send, batch in [self._prepare(partition, some) for some in self._parts(values)]:
                flights.append(asyncio.create_task(self._fly(partition, send, batch, tuple(flights))))
            for flight in flights:
                await flight
        finally:
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    async def _locate(self, partition: TopicPartition) -> None:
        attempt = Retries(self._rng)
        while True:
            try:
                return await self._client.locate(partition)
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                self._check_send(error)
                await attempt.back_off()

    def _parts(self, values: tuple[int, ...]) -> list[tuple[int, ...]]:
        if self._in_flight_max == 1:
            return [values]
        size = -(-len(values) // self._rng.randint(1, self._in_flight_max))
        return [values[at : at + size] for at in range(0, len(values), size)]

    def _prepare(self, partition: TopicPartition, values: tuple[int, ...]) -> tuple[Send, bytes]:
        producer, sequence = self._known(), self._sequences.get(partition, 0)
        send = Send(
            self.name,
            str(partition),
            values,
            ACKS_ALL,
            self._shared.now_ms(),
            self._transaction,
            producer_id=producer[0],
            producer_epoch=producer[1],
            sequence=sequence,
        )
        self._shared.history.sends.append(send)
        created_ms = EPOCH_MS + self._shared.now_ms()
        batch = build_batch(
            [Record(index, created_ms, None, encode_value(value, 24)) for index, value in enumerate(values)],
            base_offset=0,
            compression=self._rng.choice(list(Compression)),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        self._sequences[partition] = sequence + len(values)
        return send, batch

    async def _fly(
        self, partition: TopicPartition, send: Send, batch: bytes, older: Sequence[asyncio.Task[None]]
    ) -> None:
        """Send a batch until it is in the log; again only when no older one is under way."""
        attempt = Retries(self._rng)
        while True:
            asked_ms = self._shared.now_ms()
            try:
                base_offset = await self._client.produce(partition, batch, ACKS_ALL)
            except AttemptFailedError:
                await attempt.back_off()
            except KafkaError as error:
                if error.code is ErrorCode.out_of_order_sequence_number:
                    await self._judge_order(partition, send, older)
                else:
                    self._check_send(error)
                await attempt.back_off()
            else:
                return send.ok(base_offset, asked_ms, self._shared.now_ms())
            for flight in older:
                await asyncio.wait([flight])

    async def _judge_order(self, partition: TopicPartition, send: Send, older: Sequence[asyncio.Task[None]]) -> None:
        """As Java's producer: out of order is for good once all older ones are acknowledged. Raise AbortableError."""
        for _ in range(ANSWER_TURNS):  # answers come in order: let those that came before this one be seen
            await asyncio.sleep(0)
        if all(_is_acknowledged(flight) for flight in older):
            send.reason = ErrorCode.out_of_order_sequence_number.name
            self._shared.publish(SequenceRefused(partition, send))
            raise AbortableError(f"{partition}: sequence {send.sequence} is out of order")

    def _check_send(self, error: KafkaError) -> None:
        """Raise what ends the transaction; return if the batch may be sent again."""
        if error.code in SUPERSEDED:
            raise SupersededError(str(error))
        if error.code in ABORTABLE:
            raise AbortableError(str(error))
        if error.code is ErrorCode.invalid_timestamp and self._shared.were_clocks_set():
            return
        if error.code not in RETRIABLE | {ErrorCode.concurrent_transactions}:
            raise UnexpectedError(f"{self.name}: {error.code.name}: {error}")

    async def send_offsets(self, member: GroupMember, offsets: Mapping[TopicPartition, int]) -> None:
        """Have offsets of a group committed with the transaction."""
        if self._version == 1:
            await self._until_known(lambda: self._add_offsets(member.group))
        for partition, offset in offsets.items():
            self._shared.publish(CommitAsked(member.group, partition, offset))
            self._offsets.append((member.group, partition, offset))
        await self._until_known(lambda: self._commit_offsets(member, offsets))

    async def _add_offsets(self, group: str) -> None:
        producer_id, epoch = self._known()
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        answer = await self._ask(request)
        self._check(answer.error_code, "AddOffsetsToTxn")

    async def _commit_offsets(self, member: GroupMember, offsets: Mapping[TopicPartition, int]) -> None:
        producer_id, epoch = self._known()
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=(
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition.partition, committed_offset=offset, committed_metadata=self.name
                        ),
                    ),
                )
                for partition, offset in offsets.items()
            ),
        )
        answer = await self._coordinators.ask(OF_GROUPS, member.group, request, OFFSETS_MAX[self._version])
        for topic in answer.topics:
            for result in topic.partitions:
                self._coordinators.check(OF_GROUPS, member.group, result.error_code, f"{self.name}: TxnOffsetCommit")

    async def end(self, *, commit: bool) -> None:
        """Commit or abort, until that is certain. Raise AbortableError or SupersededError."""
        producer_id, epoch = self._known()
        end = TransactionEnd(self._transaction, commit, "", self._shared.now_ms(), is_certain=False)
        self._shared.history.ends.append(end)
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        answer, asked_ms = await self._end(request)
        end.is_certain = True
        if commit:
            self._committed(producer_id, epoch, asked_ms)
        if self._version > 1 and self._producer is not None:
            self._producer = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    async def _end(self, request: EndTxnRequest) -> tuple[EndTxnResponse, int]:
        attempt = Retries(self._rng)
        while True:
            asked_ms = self._shared.now_ms()
            try:
                answer = await self._ask(request, END_MAX[self._version])
                self._check(answer.error_code, "EndTxn")
            except AttemptFailedError:
                self._producer = None  # it is initialized again once this is certain
                await attempt.back_off()
            except LaterError:
                await attempt.back_off()
            else:
                return answer, asked_ms

    def _committed(self, producer_id: int, epoch: int, asked_ms: int) -> None:
        publish = self._shared.publish
        publish(TransactionCommitted(self.transactional_id, producer_id, epoch, asked_ms, self.name))
        for group, partition, offset in self._offsets:
            publish(OffsetCommitted(group, partition, offset, asked_ms))

    def give_up(self) -> None:
        """Leave the transaction to the next InitProducerId, which aborts it and fences what is on its way."""
        self._producer = None

    async def _add(self, partition: TopicPartition) -> None:
        if self._version > 1 or partition in self._added:
            return
        producer_id, epoch = self._known()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,)),),
        )

        async def add() -> None:
            answer = await self._ask(request, 3)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            self._check(result.partition_error_code, "AddPartitionsToTxn")

        await self._until_known(add)
        self._added.add(partition)

    def _known(self) -> tuple[int, int]:
        assert self._producer is not None, f"{self.name} is not initialized"
        return self._producer

    async def _until_known(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Try again what has not happened. What may have happened makes the transaction one to abort."""
        attempt = Retries(self._rng)
        while True:
            try:
                return await ask()
            except LaterError:
                await attempt.back_off()
            except AttemptFailedError as error:
                raise AbortableError(str(error)) from error

    async def _until_certain(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Try again whatever happened."""
        attempt = Retries(self._rng)
        while True:
            try:
                return await ask()
            except (LaterError, AttemptFailedError):
                await attempt.back_off()

    async def _ask(self, request: Request[ResponseT], max_version: int | None = None) -> ResponseT:
        return await self._coordinators.ask(OF_TRANSACTIONS, self.transactional_id, request, max_version)

    def _check(self, code: ErrorCode, what: str) -> None:
        self._coordinators.check(OF_TRANSACTIONS, self.transactional_id, code, f"{self.name}: {what}")


def _is_acknowledged(flight: asyncio.Task[None]) -> bool:
    return flight.done() and not flight.cancelled() and flight.exception() is None
