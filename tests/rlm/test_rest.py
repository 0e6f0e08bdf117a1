"""Looks that are left out: a task that rests does what one that looks in every task interval does, at the same times.

`History` drives one broker on virtual time; the eager one has no rests. What is compared is all that can be seen from
outside: each call of the store and each event of the metadata with its time, and the offsets of the log at each step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Final, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import UNLIMITED, EpochEntry, LogConfig
from tierfetch.protocol.records.control import ControlType
from tierfetch.remote.core import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.rlm import partition_task
from tierfetch.rlm.config import RemoteLogManagerConfig
from tierfetch.rlm.core.moment import Moment
from tierfetch.rlm.core.plan import must_give_way, plan_upkeep
from tierfetch.rlm.core.rest import Inputs, Rest
from tierfetch.rlm.core.view import CopyDeadline, PartitionView, TierMode
from tierfetch.sim.machine.loop import make_loop
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import append, end_transaction

from .brokers import PARTITION, TIERED, Broker
from .views import DELETING, FINISHED, OTHER, STARTED, local, policy, remote, view

pytestmark = pytest.mark.virtual_time

INTERVAL_MS: Final = 125
"""As all times here a multiple of the loop's tick, so that none is rounded."""
COPY_TIMEOUT_MS: Final = 400
CONFIG: Final = RemoteLogManagerConfig(
    task_interval_ms=INTERVAL_MS,
    task_retry_backoff_ms=INTERVAL_MS,
    task_retry_backoff_max_ms=2 * INTERVAL_MS,
    task_retry_jitter=0,
    copy_timeout_ms=COPY_TIMEOUT_MS,
    transaction_max_timeout_ms=0,
)
INTERVALS: Final = 50
"""How many a partition rests in the tests of a single change."""


@contextmanager
def eager() -> Iterator[None]:
    """Leave out no look."""
    with patch.object(Rest, "holds", lambda rest, inputs, now_ms: False):
        yield


class TestMoment:
    def test_bounds_are_those_of_the_answers(self) -> None:
        moment = Moment(100)
        assert [moment.is_after(time_ms) for time_ms in (99, 100, 40, 250)] == [True, False, True, False]
        assert (moment.since_ms, moment.until_ms) == (100, 101)

    def test_without_a_question_there_is_no_bound(self) -> None:
        moment = Moment(100)
        assert moment.since_ms < -(2**63)
        assert moment.until_ms > 2**63


class TestRest:
    SEEN: Final = Inputs(*cast("list[Any]", range(len(Inputs._fields))))
    REST: Final = Rest(SEEN, Moment(100))

    def test_holds_while_nothing_has_changed(self) -> None:
        assert self.REST.holds(Inputs(*self.SEEN), 100)

    @pytest.mark.parametrize("field", Inputs._fields)
    def test_ends_when_an_input_is_another(self, field: str) -> None:
        other: dict[str, Any] = {field: -1}
        assert not self.REST.holds(self.SEEN._replace(**other), 100)

    @pytest.mark.parametrize("now_ms", [99, 101])
    def test_ends_outside_its_time(self, now_ms: int) -> None:
        moment = Moment(100)
        assert moment.is_after(99)
        assert not moment.is_after(100)
        assert not Rest(self.SEEN, moment).holds(self.SEEN, now_ms)


LIMITS: Final = st.sampled_from([UNLIMITED, 0, 100, 600, 1_500, 2_500])
SEGMENTS: Final = st.builds(
    remote,
    st.integers(1, 6),
    st.sampled_from([0, 100, 200]),
    st.sampled_from([300, 350]),
    state=st.sampled_from([STARTED, FINISHED, DELETING]),
    broker_id=st.sampled_from([1, OTHER]),
    at_ms=st.integers(0, 2_000),
)
TIMES: Final = st.integers(-500, 4_000)


@st.composite
def views(draw: st.DrawFn) -> PartitionView:
    limits = {name: draw(LIMITS) for name in ("retention_ms", "retention_bytes", "local_retention_ms")}
    segments = {segment.segment_id: segment for segment in draw(st.lists(SEGMENTS, max_size=4))}
    return view(
        leader_epoch=draw(st.sampled_from([0, 0, None])),
        closed=tuple(local(base, base + 100) for base in (0, 100, 200)),
        remote=tuple(segments.values()),
        policy=policy(draw(st.sampled_from(list(TierMode))), **limits),
        copy_deadline=CopyDeadline(draw(st.integers(0, 500)), 10_000),
        proven=frozenset(segments) if draw(st.booleans()) else frozenset(),
    )


@given(views(), TIMES, TIMES)
def test_what_is_decided_at_one_moment_is_decided_within_its_bounds(
    seen: PartitionView, now_ms: int, other_ms: int
) -> None:
    moment = Moment(now_ms)
    planned = plan_upkeep(seen, moment)
    gives_way = [must_give_way(seen, seen.closed[0], rival, moment) for rival in seen.ledger.started()]
    assert moment.since_ms <= now_ms < moment.until_ms
    if moment.since_ms <= other_ms < moment.until_ms:
        later = Moment(other_ms)
        assert plan_upkeep(seen, later) == planned
        assert [must_give_way(seen, seen.closed[0], rival, later) for rival in seen.ledger.started()] == gives_way


CONFIGS: Final = st.builds(
    lambda is_copied, is_tiered, **limits: replace(
        TIERED,
        remote_log_copy_disable=not is_copied,
        remote_storage_enable=is_tiered,
        remote_log_delete_on_disable=True,
        **limits,
    ),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([True, True, True, False]),
    retention_ms=st.sampled_from([UNLIMITED, UNLIMITED, 500, 3_000]),
    retention_bytes=st.sampled_from([UNLIMITED, UNLIMITED, 300, 1_000]),
    local_retention_ms=st.sampled_from([UNLIMITED, 0, 200]),
    local_retention_bytes=st.sampled_from([UNLIMITED, 1, 400]),
)
OFFSETS: Final = st.integers(0, 8)
WAITS_S: Final = st.sampled_from([0, 0, 1 / 64, 3 / 64, 1 / 8, 13 / 64, 5 / 8])
APART_S: Final = 2.0**-12
"""Between two steps at least: none is at the moment of a look that an earlier one led to, whole intervals after it."""
STEPS: Final = st.one_of(
    st.tuples(st.just("fill"), st.integers(0, 2)),
    st.tuples(st.just("fill_uncommitted"), st.integers(0, 2)),
    st.tuples(st.just("roll")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("turn_clock"), st.sampled_from([-600, 1, 60, 450, 450, 3_500])),
    st.tuples(st.just("configure"), CONFIGS, st.booleans()),
    st.tuples(
        st.just("rival_begins"), OFFSETS, OFFSETS, st.sampled_from([-900, -100, 0, 900]), st.sampled_from([0, 0, 0, 1])
    ),
    st.tuples(st.just("rival_ends")),
    st.tuples(st.just("rival_deletes"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("delete_records"), OFFSETS),
    st.tuples(st.just("object_vanishes"), st.integers(0, 3)),
    st.tuples(st.just("hold_isr_at"), st.sampled_from([-1, 0, 6, None])),
    st.tuples(st.just("lead_again")),
    st.tuples(st.just("follow")),
    st.tuples(st.just("truncate"), st.integers(1, 9)),
    st.tuples(st.just("fail_calls"), st.integers(1, 3)),
    st.tuples(st.just("begin_transaction")),
    st.tuples(st.just("end_transaction")),
)


class History:
    """A broker, and what was seen of it."""

    def __init__(self) -> None:
        self.storage = MemoryRemoteStorage()
        self.shared = SharedMetadata()
        self.broker = Broker(1, self.storage, self.shared, config=CONFIG)
        self.broker.isr_log_start = self._isr_log_start
        self.storage.on_call = self._on_call
        self.seen: list[tuple[object, ...]] = []
        self._names: dict[RemoteLogSegmentId, int] = {}
        self._isr_held_at: int | None = None
        self._is_leader = True
        self._numbers = iter(range(1, 1_000))
        self._producers: list[int] = []

    async def run(self, steps: list[tuple[tuple[Any, ...], float]]) -> None:
        broker = self.broker
        await broker.open()
        await broker.lead(0)
        for (name, *arguments), wait_s in steps:
            await getattr(self, name)(*arguments)
            await asyncio.sleep(wait_s + APART_S)
            self._note("after", name)
        await asyncio.sleep(10 * INTERVAL_MS / 1000)
        self._note("at the end")
        for event in self.shared.events(PARTITION):
            if isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
                self.seen.append((self._name(event.segment_id), event.state, event.event_timestamp_ms))
        await broker.close()

    def _note(self, *what: object) -> None:
        state = self.broker.log.state
        offsets = (state.log_start_offset, state.local_log_start_offset, state.segments.active.base_offset)
        self.seen.append((*what, asyncio.get_running_loop().time(), offsets))

    def _on_call(self, operation: str, segment_id: RemoteLogSegmentId) -> None:
        self._note(operation, self._name(segment_id))

    def _name(self, segment_id: RemoteLogSegmentId) -> int:
        """Ids are random: the order in which they were seen first is not."""
        return self._names.setdefault(segment_id, len(self._names))

    def _isr_log_start(self) -> int:
        own = self.broker.log.state.log_start_offset
        return own if self._isr_held_at is None else min(own, self._isr_held_at)

    async def fill(self, segments: int, *, commit: bool = True) -> None:
        if self._is_leader:
            await self.broker.fill(segments, commit=commit)

    async def fill_uncommitted(self, segments: int) -> None:
        await self.fill(segments, commit=False)

    async def roll(self) -> None:
        await self.broker.log.roll()

    async def commit(self) -> None:
        self.broker.log.update_high_watermark(self.broker.log.state.log_end_offset)

    async def turn_clock(self, by_ms: int) -> None:
        self.broker.clock.now_ms += by_ms

    async def configure(self, config: LogConfig, is_reported: bool) -> None:
        self.broker.log.update_config(config)
        if is_reported:
            self.broker.manager.config_changed(PARTITION)

    async def rival_begins(self, start: int, length: int, at_ms: int, epochs_ahead: int) -> None:
        epoch = self.broker.epoch + epochs_ahead
        self.shared.append(
            RemoteLogSegmentMetadata(
                segment_id=RemoteLogSegmentId.of_attempt(PARTITION, epoch, next(self._numbers)),
                start_offset=start,
                end_offset=start + length,
                max_timestamp_ms=self.broker.clock.now_ms,
                broker_id=9,
                event_timestamp_ms=self.broker.clock.now_ms + at_ms,
                segment_size_in_bytes=100,
                segment_leader_epochs=(EpochEntry(epoch, start),),
                state=STARTED,
            )
        )

    async def rival_ends(self) -> None:
        ledger = self.broker.manager.ledger(PARTITION)
        rivals = [] if ledger is None else [segment for segment in ledger.started() if segment.broker_id == 9]
        for rival in rivals[:1]:
            self.shared.append(RemoteLogSegmentMetadataUpdate(rival.segment_id, FINISHED, 0, 9))

    async def rival_deletes(self, index: int, ends: bool) -> None:
        """A segment goes, of whichever broker, or begins to."""
        ledger = self.broker.manager.ledger(PARTITION)
        for segment in [] if ledger is None else ledger.finished()[index : index + 1]:
            for state in (DELETING, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)[: 1 + ends]:
                self.shared.append(RemoteLogSegmentMetadataUpdate(segment.segment_id, state, 0, 9))

    async def delete_records(self, before: int) -> None:
        state = self.broker.log.state
        if self._is_leader and state.log_start_offset < before <= state.high_watermark:
            await self.broker.log.increment_log_start_offset(before)

    async def object_vanishes(self, index: int) -> None:
        logs = [key for key in self.storage.objects if key[1] is None]
        for key in logs[index : index + 1]:
            del self.storage.objects[key]

    async def hold_isr_at(self, offset: int | None) -> None:
        self._isr_held_at = offset

    async def lead_again(self) -> None:
        self._is_leader = True
        await self.broker.lead(self.broker.epoch + 1)

    async def follow(self) -> None:
        self._is_leader = False
        self.broker.follow()

    async def truncate(self, count: int) -> None:
        state = self.broker.log.state
        if not self._is_leader:
            self._producers.clear()
            await self.broker.log.truncate_to(max(state.local_log_start_offset, state.log_end_offset - count))

    async def fail_calls(self, count: int) -> None:
        self.storage.faults = FailNth(count)

    async def begin_transaction(self) -> None:
        if self._is_leader:
            producer_id = next(self._numbers)
            self._producers.append(producer_id)
            batch = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
            await append(self.broker.log, 1, epoch=self.broker.epoch, **batch)

    async def end_transaction(self) -> None:
        if self._is_leader and self._producers:
            await end_transaction(self.broker.log, ControlType.ABORT, self._producers.pop(0), epoch=self.broker.epoch)


def seen_of(steps: list[tuple[tuple[Any, ...], float]]) -> list[tuple[object, ...]]:
    history = History()
    with asyncio.Runner(loop_factory=lambda: make_loop(Random(0))) as runner:
        runner.run(history.run(steps))
    return history.seen


@given(st.lists(st.tuples(STEPS, WAITS_S), min_size=4, max_size=25))
def test_a_task_that_rests_does_what_one_does_that_looks_each_time(steps: list[tuple[tuple[Any, ...], float]]) -> None:
    lazily = seen_of(steps)
    with eager():
        assert lazily == seen_of(steps)


@contextmanager
def counted_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PartitionView]]:
    """The views of all plans of upkeep and of copies."""
    looks: list[PartitionView] = []

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(seen: PartitionView, *arguments: Any) -> Any:
            looks.append(seen)
            return original(seen, *arguments)

        return call

    with monkeypatch.context() as patching:
        for name in ("plan_upkeep", "pending_copies"):
            patching.setattr(partition_task, name, counted(getattr(partition_task, name)))
        yield looks


class TestTask:
    @pytest.fixture
    async def broker(self) -> Any:
        broker = Broker(1, MemoryRemoteStorage(), SharedMetadata(), config=CONFIG)
        await broker.open(replace(TIERED, local_retention_bytes=1))
        await broker.lead(0)
        await broker.fill(3)
        await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
        assert broker.is_all_tiered()
        yield broker
        await broker.close()

    async def test_partition_in_which_nothing_changes_is_not_looked_at(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with counted_looks(monkeypatch) as looks:
            await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
            assert not looks
        with eager(), counted_looks(monkeypatch) as looks:
            await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
            assert len(looks) >= 2 * (INTERVALS - 1)

    async def test_follower_rests_too(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        broker.follow()
        await asyncio.sleep(2 * INTERVAL_MS / 1000)
        with counted_looks(monkeypatch) as looks:
            await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
            assert not looks

    async def test_retention_by_time_ends_the_rest_when_its_time_has_come(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.log.update_config(replace(TIERED, retention_ms=60_000))
        await asyncio.sleep(2 * INTERVAL_MS / 1000)
        newest_ms = broker.ledger.finished()[0].max_timestamp_ms
        with counted_looks(monkeypatch) as looks:
            broker.clock.now_ms = newest_ms + 59_999
            await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
            assert not looks
            assert broker.log.state.log_start_offset == 0
            broker.clock.now_ms += 1
            await asyncio.sleep(2 * INTERVAL_MS / 1000)
            assert looks
            assert broker.log.state.log_start_offset == broker.log.state.log_end_offset

    async def test_partition_whose_plan_has_no_effect_does_not_rest(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody says when what was in its way is gone."""

        async def nothing(*_: object) -> None:
            return

        monkeypatch.setattr(broker.log, "increment_log_start_offset", nothing)
        broker.log.update_config(replace(TIERED, retention_bytes=1))
        await asyncio.sleep(2 * INTERVAL_MS / 1000)
        with counted_looks(monkeypatch) as looks:
            await asyncio.sleep(INTERVALS * INTERVAL_MS / 1000)
            assert len(looks) >= INTERVALS - 2
