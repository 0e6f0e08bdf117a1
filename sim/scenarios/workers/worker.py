"""One process of a group of workers: reads what it is assigned, transforms, writes, and commits how far it has come.

    join -> committed offsets -> read -> transaction: write all outputs, send offsets, commit or abort -> read ...
                                      -> without transactions: remember what was read, commit offsets

It ends when it is superseded (a process with the same ids has come), or when it may stop and everything that was fed to
the group is committed. What it has committed in the eyes of the group it has done: `judges.core.exactly_once`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ....protocol import ErrorCode, KafkaError, TopicPartition
from ..client import LATEST, AttemptFailedError, SimClient
from ..workload import Retries, Shared, records_of
from .coordinators import AbortableError, LaterError, RejoinError, SupersededError
from .members import GroupMember
from .transactions import TransactionalProducer

WAIT_MS: Final = 100
RECORDS_MAX: Final = 20
"""Records of one transaction."""
COMMIT_SHARE: Final = 0.85
SLOW_SHARE: Final = 0.2
SLOW_S: Final = (1.0, 6.0)
"""How long some transactions stay open: some longer than their timeout."""
_INPUT_BITS: Final = 32


def output_of(value: int, transaction: int) -> int:
    """What becomes of a value in a transaction: no two outputs are the same."""
    return transaction << _INPUT_BITS | value


def input_of(output: int) -> int:
    """The value that it was made of."""
    return output & ((1 << _INPUT_BITS) - 1)


class Worker:
    """`outputs` are the partitions that it writes to, with `producer`; without one it only reads. `may_stop` says that
    nothing more is fed; `is_superseded`, that another process has its place.
    """

    def __init__(
        self,
        member: GroupMember,
        producer: TransactionalProducer | None,
        client: SimClient,
        shared: Shared,
        rng: Random,
        *,
        inputs: Sequence[TopicPartition],
        outputs: Sequence[TopicPartition],
        may_stop: Callable[[], bool],
        is_superseded: Callable[[], bool],
        done: set[int],
    ) -> None:
        self._member = member
        self._producer = producer
        self._client = client
        self._shared = shared
        self._rng = rng
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._may_stop = may_stop
        self._is_superseded = is_superseded
        self._done = done

    async def run(self) -> None:
        attempt = Retries(self._rng)
        while True:
            try:
                await self._work(await self._member.join())
                return
            except SupersededError:
                if self._is_superseded():
                    return
                self._member.forget()
                self._give_up()
            except AbortableError:
                self._give_up()
            except (RejoinError, LaterError, AttemptFailedError):
                self._give_up()
            await attempt.back_off()

    def _give_up(self) -> None:
        if self._producer is not None:
            self._producer.give_up()

    async def _work(self, assigned: tuple[TopicPartition, ...]) -> None:
        """Until everything is done. Raise what the member and the producer raise."""
        positions = await self._positions(assigned)
        while not (self._may_stop() and await self._is_all_done()):
            await self._member.beat()
            read = await self._read(positions)
            if not read:
                await self._shared.pause(self._rng.uniform(0.05, 0.2))
                if self._shared.stopping.is_set():
                    await Retries(self._rng).back_off()
                continue
            ends = {partition: end for partition, (_, end) in read.items()}
            values = [value for found, _ in read.values() for value in found]
            if await self._do(values, ends):
                positions |= ends
            else:
                positions = await self._positions(assigned)
        await self._member.leave()

    async def _do(self, values: Sequence[int], ends: dict[TopicPartition, int]) -> bool:
        """Whether it is committed."""
        if self._producer is None:
            self._done.update(values)
            if self._rng.random() < SLOW_SHARE:
                await self._shared.pause(self._rng.uniform(*SLOW_S))
            await self._member.commit(ends)
            return True
        transaction = await self._producer.begin()
        for place, partition in enumerate(self._outputs):
            mine = tuple(output_of(value, transaction) for value in values if value % len(self._outputs) == place)
            if mine:
                await self._producer.produce(partition, mine)
        is_slow, is_early = self._rng.random() < SLOW_SHARE, self._rng.random() < 0.5
        if is_slow and is_early:  # the group may have given its partitions to others before it commits
            await self._shared.pause(self._rng.uniform(*SLOW_S))
        await self._producer.send_offsets(self._member, ends)
        if is_slow and not is_early:
            await self._shared.pause(self._rng.uniform(*SLOW_S))
        is_commit = self._rng.random() < COMMIT_SHARE
        await self._producer.end(commit=is_commit)
        return is_commit

    async def _positions(self, assigned: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        attempt = Retries(self._rng)
        while assigned:
            try:
                return await self._member.committed(assigned)
            except LaterError:
                await attempt.back_off()
                await self._member.beat()
        return {}

    async def _read(self, positions: dict[TopicPartition, int]) -> dict[TopicPartition, tuple[list[int], int]]:
        """Values and the next position, of those partitions that have some."""
        read: dict[TopicPartition, tuple[list[int], int]] = {}
        for partition, position in positions.items():
            try:
                fetched = await self._client.fetch(partition, position, max_wait_ms=WAIT_MS, is_read_committed=True)
                records, end = records_of(fetched, position, is_read_committed=True)
            except AttemptFailedError:
                continue
            except KafkaError as error:
                if error.code is ErrorCode.offset_out_of_range:
                    raise RejoinError(str(error)) from error
                Retries.check(error)
                continue
            if len(records) > RECORDS_MAX:
                records, end = records[:RECORDS_MAX], records[RECORDS_MAX - 1][0] + 1
            if records:
                read[partition] = [value for _, value in records], end
        return read

    async def _is_all_done(self) -> bool:
        """Whether everything that was fed is committed."""
        try:
            ends = {each: await self._client.list_offset(each, LATEST) for each in self._inputs}
        except (AttemptFailedError, KafkaError):
            return False
        committed = await self._positions(self._inputs)
        return all(committed[each] >= end for each, end in ends.items())
