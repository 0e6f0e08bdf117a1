"""A share coordinator in memory: it fences, fails, and holds answers back, as a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from tierfetch.broker.share.core.partition import StoredBatch
from tierfetch.broker.share.persister import UNINITIALIZED, ShareKey, StateWrite, StoredState
from tierfetch.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class KeptState:
    """A share-partition's state, by offset."""

    state_epoch: int = 0
    leader_epoch: int = -1
    start_offset: int = UNINITIALIZED
    completed: int = -1
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


class FakeSharePersister:
    """`states` are durable. `failures` are what the next writes end with; one `after` it was made is lost on its way
    back. While `holds`, writes wait in `held`. A share-partition that was not initialized begins at `begins_at`.
    """

    def __init__(self, begins_at: int = UNINITIALIZED) -> None:
        self.states: dict[ShareKey, KeptState] = {}
        self.failures: deque[ErrorCode | Exception] = deque()
        self.lost_answers = 0
        self.holds = False
        self.held: list[asyncio.Future[None]] = []
        self.writes: list[StateWrite] = []
        self.reads = 0
        self.read_failure: ErrorCode | Exception | None = None
        self.begins_at = begins_at

    def _state(self, key: ShareKey) -> KeptState:
        return self.states.setdefault(key, KeptState(start_offset=self.begins_at))

    async def read_state(self, key: ShareKey, leader_epoch: int) -> StoredState:
        self.reads += 1
        await self._held_back()
        if isinstance(self.read_failure, Exception):
            raise self.read_failure
        if self.read_failure is not None:
            raise KafkaError(self.read_failure, "as the test says")
        state = self._state(key)
        if leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch, f"{leader_epoch} is before {state.leader_epoch}")
        state.leader_epoch = leader_epoch
        batches = tuple(StoredBatch(number, number, *held) for number, held in sorted(state.offsets.items()))
        return StoredState(state.state_epoch, state.start_offset, batches)

    async def write_state(self, key: ShareKey, write: StateWrite) -> None:
        self.writes.append(write)
        await self._held_back()
        if self.failures:
            failure = self.failures.popleft()
            raise KafkaError(failure, "as the test says") if isinstance(failure, ErrorCode) else failure
        state = self._state(key)
        if write.leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch, f"{write.leader_epoch} is before {state.leader_epoch}")
        if write.state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.fenced_state_epoch, f"{write.state_epoch} is before {state.state_epoch}")
        state.start_offset, state.completed = write.start_offset, write.completed
        for batch in write.batches:
            for number in range(batch.first, batch.last + 1):
                state.offsets[number] = (batch.state, batch.delivery_count)
        state.offsets = {number: held for number, held in state.offsets.items() if number >= state.start_offset}
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError("the answer is lost")

    def let_go(self) -> None:
        """Answer what is held back."""
        self.holds = False
        held, self.held = self.held, []
        for each in held:
            if not each.done():
                each.set_result(None)

    async def _held_back(self) -> None:
        await asyncio.sleep(0)
        if self.holds:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.held.append(waiting)
            await waiting
