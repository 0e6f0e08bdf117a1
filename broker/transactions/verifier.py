"""Verifies with the coordinator that a batch belongs to an ongoing transaction, before it is appended (KIP-890).

    batch -> (open in this log already) --------------------------------> append, if it still is
          -> guard -> joined with what waits -> the coordinator's word -> append, if the guard still holds

| the producer's Produce or TxnOffsetCommit | what is asked |
|---|---|
| of transaction version 0, 1 | whether the partition was added by its client (part 1) |
| of transaction version 2 | that it be added now (part 2) |

* The guard is taken first. If the transaction ends between the answer and the append, the marker voids it.
* The guard knows the first sequence: where the first batch is refused for a moment, as its coordinator cannot be
  asked, the second one does not open the transaction in the log.
* An addition may wait for the markers of the transaction before, which void the guard too. Then it is asked for again
  with a new one, as what the coordinator said was said after those markers.
* Batches of one producer for one partition that wait share one question, and continue in their order. Until the last of
  them has continued, what comes waits behind it, even if an earlier batch has opened the transaction in the log: none
  overtakes. A producer whose batch 3 is refused as out of order after batch 2 was accepted gives up its transaction.
* One question for each transactional id is under way, for any number of partitions; what comes meanwhile shares the
  next.

| the coordinator | the batch |
|---|---|
| cannot be asked now | NOT_ENOUGH_REPLICAS, which every producer repeats |
| has another producer id, or never had this one | INVALID_PRODUCER_ID_MAPPING |
| has another epoch | INVALID_PRODUCER_EPOCH |
| has no such partition in the transaction | TRANSACTION_ABORTABLE; INVALID_TXN_STATE to clients that do not know it |
| is writing markers | CONCURRENT_TRANSACTIONS with version 2, else NOT_ENOUGH_REPLICAS |
| is that of no name | INVALID_REQUEST |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple

from ...light_dataclass import dataclass
from ...log.core import NO_SEQUENCE, ProducerStateManager, earlier_sequence
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicPartition, numbers_by_topic
from ...protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...protocol.net import KafkaClient
from ..cluster.view import ClusterView
from ..replicas.partition import Partition
from .coordinator import TransactionCoordinator
from .core.events import AddPartitions, Producer
from .core.states import EPOCH_BUMP_SINCE
from .markers import AddressOf

ADD_RETRIES: Final = 5
ADD_RETRY_S: Final = 0.02
"""How often, and after how long, an addition is tried again while the markers of the transaction before are written."""

ONGOING: Final = object()
"""The guard of a batch whose transaction is open in the log already: it holds for no other."""

# The last two: this leader has newer metadata than the coordinator.
_NOT_NOW: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
        ErrorCode.unknown_server_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.operation_not_attempted,
    }
)


class Question(NamedTuple):
    """One producer of a transactional id, and whether its partitions are added or only verified."""

    transactional_id: str
    producer: Producer
    adds: bool


class _Verdict(NamedTuple):
    """The coordinator's word, and the guard that was taken before it."""

    error: ErrorCode
    guard: object | None = None


class _Asked:
    """What is asked for one partition, and the batches that wait for the answer, in their order."""

    __slots__ = ("_partition", "_turns", "sequence", "verdict")

    def __init__(self, partition: Partition, sequence: int) -> None:
        self._partition = partition
        self.sequence = sequence
        """The first of those that wait; -1: they have none."""
        self.verdict: _Verdict | None = None
        self._turns: dict[asyncio.Future[None], None] = {}

    @property
    def producers(self) -> ProducerStateManager:
        """Return those of the log as it is now: where this broker follows meanwhile, it is truncated or replaced."""
        return self._partition.log.state.producers

    @property
    def is_over(self) -> bool:
        """Whether the answer is there, and all who waited have continued."""
        return self.verdict is not None and not self._turns

    async def turn(self) -> None:
        """Wait for the verdict, and until those that came earlier have continued."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._turns[mine] = None
        if self.verdict is not None:
            loop.call_soon(_continue, mine)  # behind those that were woken already
        try:
            await mine
        finally:
            del self._turns[mine]

    def answer(self, verdict: _Verdict) -> None:
        self.verdict = verdict
        for turn in self._turns:
            _continue(turn)


@dataclass(slots=True)
class _Waiting:
    partitions: dict[TopicPartition, _Asked] = field(default_factory=dict)
    runner: asyncio.Task[None] | None = None


class TransactionVerifier:
    """See the module's docstring."""

    def __init__(
        self,
        view: ClusterView,
        node_id: int,
        coordinator: TransactionCoordinator,
        client: KafkaClient,
        address_of: AddressOf,
    ) -> None:
        self._view = view
        self._node_id = node_id
        self._coordinator = coordinator
        self._client = client
        self._address_of = address_of
        self._waiting: dict[Question, _Waiting] = {}
        self._in_flight: dict[tuple[TopicPartition, Question], _Asked] = {}

    async def verify(
        self, partition: Partition, question: Question, *, knows_abortable: bool, sequence: int = NO_SEQUENCE
    ) -> object | None:
        """Return the guard for the append of a batch that begins with `sequence`. Raise KafkaError as in the module's
        table.
        """
        if not self._coordinator.settings.is_verified and not question.adds:
            return None
        name, producer = partition.partition.topic_partition, question.producer
        producers = partition.log.state.producers
        asked = self._in_flight.get((name, question))
        if asked is None and producers.is_ongoing(producer.producer_id, producer.epoch):
            return ONGOING
        producers.guard(producer.producer_id, producer.epoch, sequence)
        if asked is None:
            asked = self._ask(partition, question, sequence)
        asked.sequence = earlier_sequence(asked.sequence, sequence)
        error, guard = await self._verdict(name, question, asked)
        if error is not ErrorCode.none:
            raise _refusal(name, question, error, knows_abortable=knows_abortable)
        return guard

    async def close(self) -> None:
        """Stop asking."""
        runners = [waiting.runner for waiting in self._waiting.values() if waiting.runner is not None]
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    async def _verdict(self, name: TopicPartition, question: Question, asked: _Asked) -> _Verdict:
        try:
            await asked.turn()
        finally:
            self._forget_if_over(name, question, asked)
        assert asked.verdict is not None
        return asked.verdict

    def _forget_if_over(self, name: TopicPartition, question: Question, asked: _Asked) -> None:
        if asked.is_over:
            del self._in_flight[name, question]

    def _ask(self, partition: Partition, question: Question, sequence: int) -> _Asked:
        name = partition.partition.topic_partition
        asked = self._in_flight[name, question] = _Asked(partition, sequence)
        waiting = self._waiting.setdefault(question, _Waiting())
        waiting.partitions[name] = asked
        if waiting.runner is None:
            waiting.runner = asyncio.create_task(self._run(question, waiting), name="verify-transaction")
        return asked

    async def _run(self, question: Question, waiting: _Waiting) -> None:
        partitions: dict[TopicPartition, _Asked] = {}
        try:
            while waiting.partitions:
                partitions, waiting.partitions = waiting.partitions, {}
                verdicts = await self._verdicts(question, partitions)
                for name, asked in partitions.items():
                    self._settle(name, question, asked, verdicts[name])
        finally:
            del self._waiting[question]
            for name, asked in (*partitions.items(), *waiting.partitions.items()):
                if asked.verdict is None:
                    self._settle(name, question, asked, _Verdict(ErrorCode.coordinator_not_available))

    def _settle(self, name: TopicPartition, question: Question, asked: _Asked, verdict: _Verdict) -> None:
        asked.answer(verdict)
        self._forget_if_over(name, question, asked)  # all who waited may have given up

    async def _verdicts(
        self, question: Question, partitions: Mapping[TopicPartition, _Asked]
    ) -> dict[TopicPartition, _Verdict]:
        """Ask until the markers of the transaction before are written, as often as `ADD_RETRIES` allows."""
        producer, concurrent = question.producer, ErrorCode.concurrent_transactions
        left = ADD_RETRIES if question.adds else 0
        while True:
            guards = {
                name: asked.producers.guard(producer.producer_id, producer.epoch, asked.sequence)
                for name, asked in partitions.items()
            }
            codes = await self._answers(question, frozenset(partitions))
            is_early = concurrent in codes.values()
            if question.adds:
                for name, asked in partitions.items():
                    is_void = not asked.producers.admits(producer.producer_id, producer.epoch, guards[name])
                    if is_void and codes.get(name) is ErrorCode.none:
                        codes[name] = concurrent
            if not left or concurrent not in codes.values():
                unknown = ErrorCode.unknown_server_error
                return {name: _Verdict(codes.get(name, unknown), guard) for name, guard in guards.items()}
            left -= 1
            if is_early:
                await asyncio.sleep(ADD_RETRY_S)

    async def _answers(
        self, question: Question, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if not question.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.invalid_request)
        try:
            broker = self._coordinator.find_now(question.transactional_id)
            if broker is None:
                return dict.fromkeys(partitions, ErrorCode.invalid_producer_id_mapping)
            ask = self._ask_here if broker.id == self._node_id else self._ask_there
            return await ask(question, partitions, broker.id)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        except OUTSIDE:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)

    async def _ask_here(
        self, question: Question, partitions: frozenset[TopicPartition], _: int
    ) -> dict[TopicPartition, ErrorCode]:
        transactional_id, producer, adds = question
        if adds:
            reply = await self._coordinator.ask(
                transactional_id,
                lambda token: AddPartitions(
                    token=token, producer=producer, partitions=partitions, transaction_version=EPOCH_BUMP_SINCE
                ),
            )
            return dict.fromkeys(partitions, reply.error)
        verified = self._coordinator.verify(transactional_id, producer, partitions)
        if isinstance(verified, ErrorCode):
            return dict.fromkeys(partitions, verified)
        absent = ErrorCode.transaction_abortable
        return {name: ErrorCode.none if name in verified else absent for name in partitions}

    async def _ask_there(
        self, question: Question, partitions: frozenset[TopicPartition], broker_id: int
    ) -> dict[TopicPartition, ErrorCode]:
        request = AddPartitionsToTxnRequest(
            transactions=(
                AddPartitionsToTxnTransaction(
                    transactional_id=question.transactional_id,
                    producer_id=question.producer.producer_id,
                    producer_epoch=question.producer.epoch,
                    verify_only=not question.adds,
                    topics=tuple(
                        AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
                        for name, numbers in numbers_by_topic(partitions).items()
                    ),
                ),
            )
        )
        address = self._address_of(self._view.image, broker_id)
        timeout_s = self._coordinator.settings.request_timeout_ms / 1000
        response = await self._client.send(address, request, timeout_s=timeout_s)
        if response.error_code is not ErrorCode.none:
            return dict.fromkeys(partitions, response.error_code)
        return {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for result in topic.results_by_partition
        }


def _continue(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _refusal(name: TopicPartition, question: Question, error: ErrorCode, *, knows_abortable: bool) -> KafkaError:
    if error in _NOT_NOW or (error is ErrorCode.concurrent_transactions and not question.adds):
        code = ErrorCode.not_enough_replicas
    elif error is ErrorCode.producer_fenced:
        code = ErrorCode.invalid_producer_epoch
    elif error is ErrorCode.transaction_abortable and not knows_abortable:
        code = ErrorCode.invalid_txn_state
    else:
        code = error
    transactional_id, producer, _ = question
    message = (
        f"transactional.id {transactional_id}, producer {producer.producer_id} in epoch {producer.epoch}: its "
        f"coordinator does not confirm that {name} is in an ongoing transaction: {error.name}"
    )
    return KafkaError(code, message)
