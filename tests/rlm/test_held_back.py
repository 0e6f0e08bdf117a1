"""R1: a transaction that holds back the copies of a partition for longer than its coordinator could is reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import OpenTransaction
from tierfetch.protocol.records.control import ControlType
from tierfetch.rlm.core.held_back import BUFFER_MS, REPEAT_MS, HeldBack, Notice
from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import append, end_transaction

from .brokers import PARTITION, QUICK, TIERED, Broker, until

pytestmark = pytest.mark.virtual_time

FIRST, SECOND = OpenTransaction(7, 3, 100), OpenTransaction(8, 0, 150)
LIMIT_MS = 1000
MAX_TIMEOUT_MS = 60_000
SLOW = replace(QUICK, task_interval_ms=30_000, transaction_max_timeout_ms=MAX_TIMEOUT_MS)


def test_R1_a_transaction_is_reported_once_it_has_held_back_copies_for_too_long_and_again_each_hour() -> None:
    held = HeldBack(LIMIT_MS)
    assert held.step(FIRST, 5_000) is None
    assert held.step(FIRST, 5_999) is None
    assert (held.held_ms, held.is_hanging) == (999, False)
    assert held.step(FIRST, 6_000) == Notice(FIRST, 1_000)
    assert held.is_hanging
    assert held.step(FIRST, 6_000 + REPEAT_MS - 1) is None
    assert held.step(FIRST, 6_000 + REPEAT_MS) == Notice(FIRST, 1_000 + REPEAT_MS)


def test_R1_the_end_of_a_transaction_that_was_reported_is_reported_and_another_one_has_its_own_time() -> None:
    held = HeldBack(LIMIT_MS)
    held.step(FIRST, 0)
    held.step(FIRST, LIMIT_MS)
    assert held.step(SECOND, LIMIT_MS + 5) == Notice(FIRST, LIMIT_MS + 5, is_over=True)
    assert (held.held_ms, held.is_hanging) == (0, False)
    assert held.step(None, LIMIT_MS + 6) is None, "it was never reported"
    assert held.step(SECOND, LIMIT_MS + 7) is None
    assert held.step(SECOND, 2 * LIMIT_MS + 6) is None, "its time begins again"
    assert held.step(SECOND, 2 * LIMIT_MS + 7) == Notice(SECOND, LIMIT_MS)
    assert held.step(None, 2 * LIMIT_MS + 8) == Notice(SECOND, LIMIT_MS + 1, is_over=True)
    assert (held.held_ms, held.is_hanging) == (0, False)


@given(
    st.lists(st.tuples(st.sampled_from([None, FIRST, SECOND]), st.integers(0, 2 * LIMIT_MS)), max_size=30),
)
def test_R1_whatever_comes_each_warning_has_one_end_and_only_what_lasts_is_warned_of(
    steps: list[tuple[OpenTransaction | None, int]],
) -> None:
    held, now_ms, since_ms, is_warned = HeldBack(LIMIT_MS), 0, 0, False
    before: OpenTransaction | None = None
    for transaction, later_ms in [*steps, (None, 1)]:
        now_ms += later_ms
        if transaction is None or transaction != before:
            notice = held.step(transaction, now_ms)
            assert notice == (Notice(before, now_ms - since_ms, is_over=True) if before and is_warned else None)
            since_ms, is_warned = now_ms, False
        else:
            notice = held.step(transaction, now_ms)
            lasts = now_ms - since_ms >= LIMIT_MS
            assert (notice is not None) == (lasts and not is_warned)
            is_warned = lasts
        before = transaction
        assert held.is_hanging == is_warned


@pytest.fixture
async def leader() -> AsyncIterator[Broker]:
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata(), config=SLOW)
    await broker.open()
    broker.log.update_config(TIERED)
    await broker.lead(0)
    yield broker
    await broker.close()


async def test_R1_a_hanging_transaction_is_named_in_the_log_and_counted_until_it_ends(
    leader: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await append(leader.log, 2)
    await leader.log.roll()
    await append(leader.log, 2, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)
    await leader.log.roll()
    await leader.fill(0)
    await until(lambda: leader.tiered_to() == 2)

    await asyncio.sleep((MAX_TIMEOUT_MS + BUFFER_MS) / 1000 - 60)
    lag = leader.manager.copy_lag(PARTITION)
    assert lag.transaction_ms > MAX_TIMEOUT_MS
    assert not lag.is_transaction_hanging
    assert "producer 77" not in caplog.text, "its coordinator may still end it"

    await asyncio.sleep(120)
    assert leader.manager.copy_lag(PARTITION).is_transaction_hanging
    (warning,) = [record for record in caplog.records if "producer 77" in record.getMessage()]
    assert warning.levelname == "WARNING"
    assert "t-0: producer 77 in epoch 0 has a transaction open at offset 2" in warning.getMessage()
    assert "abort --topic t --partition 0 --start-offset 2" in warning.getMessage()
    await asyncio.sleep(REPEAT_MS / 1000 + 60)
    assert sum("producer 77" in record.getMessage() for record in caplog.records) == 2

    await end_transaction(leader.log, ControlType.ABORT, 77)
    leader.log.update_high_watermark(leader.log.state.log_end_offset)
    await until(leader.is_all_tiered)
    await until(lambda: not leader.manager.copy_lag(PARTITION).is_transaction_hanging)
    assert leader.manager.copy_lag(PARTITION).transaction_ms == 0
    assert "t-0: the transaction of producer 77 at offset 2 no longer holds back copies" in caplog.text


async def test_R1_nothing_is_said_of_a_transaction_that_keeps_no_closed_segment_from_the_tier(
    leader: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await leader.fill(1)
    await append(leader.log, 2, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)
    leader.log.update_high_watermark(leader.log.state.log_end_offset)
    await until(leader.is_all_tiered)
    await asyncio.sleep(2 * REPEAT_MS / 1000)
    assert leader.manager.copy_lag(PARTITION).transaction_ms == 0
    assert "producer 77" not in caplog.text
