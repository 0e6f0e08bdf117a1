"""Rebuilding epochs and producer state from the tier: what is proven, and how each miss is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from tierfetch.fetcher.aux_state import AskAgainError, AuxState, AuxStateBuilder, LedgerBehindError
from tierfetch.fetcher.core.bootstrap import AdoptFromTier
from tierfetch.log.core import EpochEntry, ProducerStateManager
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.protocol.records import Record, build_batch, parse_header
from tierfetch.remote import (
    IndexType,
    RemoteLogMetadataError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
)
from tierfetch.remote.core import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fetcher.model_log import ModelLog, model_log, worked_log
from tierfetch.tests.fetcher.model_tier import PARTITION, ModelTier, segment, update
from tierfetch.tests.fetcher.stub_leader import StubLeader

ADOPT_6 = AdoptFromTier(log_start_offset=0, start_offset=6, last_epoch=2)


async def worked_tier(log: ModelLog) -> ModelTier:
    tier = ModelTier()
    await tier.start()
    tier.upload(log, 0, 2)
    tier.upload(log, 3, 5)
    return tier


async def build(
    tier: ModelTier,
    log: ModelLog,
    adoption: AdoptFromTier = ADOPT_6,
    *,
    ledger_wait_s: float = 0.05,
    storage_deadline_s: float = 5.0,
) -> AuxState:
    builder = AuxStateBuilder(
        tier.storage, tier.metadata, ledger_wait_s=ledger_wait_s, storage_deadline_s=storage_deadline_s
    )
    return await builder.build(PARTITION, adoption, StubLeader({PARTITION: log}), log.leader_epoch)


async def test_F9_epochs_and_producer_state_of_log_start_to_start() -> None:
    log = worked_log()
    aux = await build(await worked_tier(log), log)
    assert aux.state.topic_id == PARTITION.topic_id
    assert (aux.state.log_start_offset, aux.state.start_offset) == (0, 6)
    assert aux.state.epochs == (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5))
    assert aux.state.producer_snapshot is not None
    assert aux.bytes_from_tier > len(aux.state.producer_snapshot)


async def test_F5_a_segment_that_reaches_beyond_the_start_moves_the_start_behind_it() -> None:
    log = worked_log()
    aux = await build(await worked_tier(log), log, AdoptFromTier(0, 4, 1))
    assert aux.state.start_offset == 6


async def test_F6_the_epochs_begin_at_the_log_start() -> None:
    log = worked_log()
    aux = await build(await worked_tier(log), log, AdoptFromTier(4, 6, 2))
    assert aux.state.epochs == (EpochEntry(1, 4), EpochEntry(2, 5))


async def test_bootstrap_rule_6_an_open_transaction_below_the_start_is_kept_open() -> None:
    log = worked_log()
    tier = ModelTier()
    await tier.start()
    producers = ProducerStateManager(0)
    batch = build_batch(
        [Record(1, 0, None, b"", ())],
        base_offset=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    producers.apply(parse_header(batch))
    tier.upload(log, 0, 5, producers=producers)
    aux = await build(tier, log)
    assert aux.state.producer_snapshot == producers.snapshot()
    adopted = ProducerStateManager.from_snapshot(aux.state.producer_snapshot, aux.state.start_offset)
    assert adopted.first_undecided_offset == 1


class TestLineage:
    """Rule 1: the follower proves with the leader that the segment is of its history."""

    async def test_bootstrap_rule_1_a_segment_of_which_nothing_is_on_the_lineage_is_not_adopted(self) -> None:
        lost_history = model_log((0, 0), (1, 4), end=10)
        log = model_log((0, 0), (2, 4), end=12)
        tier = ModelTier()
        await tier.start()
        tier.upload(log, 0, 3)
        tier.upload(lost_history, 4, 9)
        with pytest.raises(LedgerBehindError, match="offset 5 of epoch 2"):
            await build(tier, log, AdoptFromTier(0, 6, 2))

    async def test_bootstrap_rule_1_a_whole_segment_is_found_beside_a_straddling_one(self) -> None:
        lost_history = model_log((0, 0), end=8)
        log = model_log((0, 0), (2, 6), end=12)
        tier = ModelTier()
        await tier.start()
        tier.upload(lost_history, 0, 7, number=1)
        tier.upload(log, 0, 9, number=2)
        aux = await build(tier, log, AdoptFromTier(0, 6, 0))
        assert aux.state.start_offset == 10
        assert aux.state.epochs == (EpochEntry(0, 0), EpochEntry(2, 6))

    async def test_an_epoch_index_that_contradicts_the_metadata_is_corrupt(self) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        other = model_log((0, 0), (1, 2), (2, 5), end=8)
        foreign = ModelTier()
        last = foreign.upload(other, 3, 5)
        tier.storage.objects[last.segment_id, IndexType.LEADER_EPOCH] = foreign.storage.objects[
            last.segment_id, IndexType.LEADER_EPOCH
        ].replace(b"2 5", b"2 4")
        with pytest.raises(RemoteStorageCorruptError, match="contradicts"):
            await build(tier, log)

    async def test_an_index_whose_first_line_was_damaged_is_not_adopted_without_the_epochs_below(self) -> None:
        """The segments cover the offsets by themselves, but nothing tells their epochs."""
        log = worked_log()
        tier = await worked_tier(log)
        indexes = [key for key in tier.storage.objects if key[1] is IndexType.LEADER_EPOCH]
        for key in indexes:
            whole = tier.storage.objects[key]
            assert b"\n0 0\n" in whole
            tier.storage.objects[key] = whole.replace(b"\n0 0\n", b"\n0 1\n" if key == indexes[-1] else b"\n0 x\n")
        with pytest.raises(RemoteStorageCorruptError, match="found"):
            await build(tier, log)


class TestRaisedLogStart:
    """A leader raised its log start, copied, and went before its followers knew of it: the next one begins lower."""

    async def tier_of_the_former_leader(self, log: ModelLog, *raised: tuple[int, int, int]) -> ModelTier:
        """[0, 2] from the log start on; then (start, end, log start) of each segment that was copied later."""
        tier = ModelTier()
        await tier.start()
        tier.upload(log, 0, 2)
        for start, end, log_start_offset in raised:
            former = worked_log()
            former.epochs.truncate_from_start(log_start_offset)
            tier.upload(former, start, end)
        return tier

    async def test_bootstrap_rule_2_the_epochs_below_are_those_of_the_segments_before(self) -> None:
        log = worked_log()
        aux = await build(await self.tier_of_the_former_leader(log, (3, 5, 3)), log)
        assert aux.state.epochs == (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5))

    async def test_bootstrap_rule_2_an_epoch_that_goes_on_begins_where_it_began(self) -> None:
        log = worked_log()
        tier = await self.tier_of_the_former_leader(log, (3, 3, 3), (4, 5, 4))
        aux = await build(tier, log, AdoptFromTier(1, 6, 2))
        assert aux.state.epochs == (EpochEntry(0, 1), EpochEntry(1, 3), EpochEntry(2, 5))

    async def test_bootstrap_rule_1_a_lost_history_tells_only_what_lies_below_the_divergence(self) -> None:
        log = model_log((0, 0), (2, 3), (3, 5), end=8)
        tier = ModelTier()
        await tier.start()
        lost = model_log((0, 0), (1, 2), end=5)
        tier.upload(lost, 0, 3, number=1)
        former = model_log((0, 0), (2, 3), (3, 5), end=8)
        former.epochs.truncate_from_start(3)
        tier.upload(former, 3, 5)
        adoption = AdoptFromTier(log_start_offset=0, start_offset=6, last_epoch=3)
        with pytest.raises(LedgerBehindError, match=r"offsets \[0, 3\)"):
            await build(tier, log, adoption)
        tier.upload(model_log((0, 0), end=5), 0, 3, number=2)
        assert (await build(tier, log, adoption)).state.epochs == (EpochEntry(0, 0), EpochEntry(2, 3), EpochEntry(3, 5))

    async def test_bootstrap_rule_2_what_no_segment_knows_is_a_gap(self) -> None:
        log = worked_log()
        tier = await self.tier_of_the_former_leader(log, (3, 5, 4))
        with pytest.raises(LedgerBehindError, match=r"offsets \[0, 3\)"):
            await build(tier, log)

    @pytest.mark.parametrize("index", [((2, 5),), ((1, 4), (2, 5))])
    async def test_an_index_that_begins_within_its_segment_is_completed_by_the_metadata(
        self, index: tuple[tuple[int, int], ...]
    ) -> None:
        """The log start was raised between the two."""
        log = worked_log()
        tier = await worked_tier(log)
        last = segment(3, 5)
        entries = [EpochEntry(*entry) for entry in index]
        tier.storage.objects[last.segment_id, IndexType.LEADER_EPOCH] = encode_leader_epochs(entries)
        assert (await build(tier, log)).state.epochs == (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5))
        aux = await build(tier, log, AdoptFromTier(4, 6, 2))
        assert aux.state.epochs == (EpochEntry(1, 4), EpochEntry(2, 5))

    async def test_an_index_without_any_epoch_of_its_segment_is_corrupt(self) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        last = segment(3, 5)
        tier.storage.objects[last.segment_id, IndexType.LEADER_EPOCH] = encode_leader_epochs([])
        with pytest.raises(RemoteStorageCorruptError, match="has no epoch for offset 0 and above"):
            await build(tier, log)


class TestStraddling:
    """After all machines have lost power, the leader's log may end within what it had tiered."""

    LOST = model_log((0, 0), end=10)
    LOG = model_log((0, 0), (2, 6), end=12)

    @staticmethod
    def batches(start: int, end: int) -> list[bytes]:
        """Records [start, end) of producer 7, each in a batch of its own."""
        return [
            build_batch(
                [Record(offset, 0, None, b"", ())],
                base_offset=offset,
                producer_id=7,
                producer_epoch=0,
                base_sequence=offset,
            )
            for offset in range(start, end)
        ]

    def state(self, end: int) -> ProducerStateManager:
        producers = ProducerStateManager(0)
        for batch in self.batches(0, end):
            producers.apply(parse_header(batch))
        return producers

    def upload(self, tier: ModelTier, start: int, end: int) -> RemoteLogSegmentMetadata:
        metadata = segment(start, end, size=sum(map(len, self.batches(start, end + 1))))
        indexes = {
            IndexType.LEADER_EPOCH: encode_leader_epochs(self.LOST.epochs.range(-1, end + 1)),
            IndexType.PRODUCER_SNAPSHOT: self.state(end + 1).snapshot(),
        }
        tier.storage.put(metadata, b"".join(self.batches(start, end + 1)), indexes)
        tier.finish(metadata)
        return metadata

    @pytest.mark.parametrize("starts", [(0,), (0, 3), (0, 6)])
    async def test_bootstrap_rule_1_the_first_part_is_adopted_with_the_producers_of_its_end(
        self, starts: tuple[int, ...]
    ) -> None:
        tier = ModelTier()
        await tier.start()
        for start, end in pairwise([*starts, 10]):
            self.upload(tier, start, end - 1)
        aux = await build(tier, self.LOG, AdoptFromTier(0, 6, 0))
        assert (aux.state.start_offset, aux.state.epochs) == (6, (EpochEntry(0, 0),))
        assert aux.state.producer_snapshot == self.state(6).snapshot()

    async def test_bootstrap_rule_1_a_whole_segment_below_may_reach_into_the_straddling_one(self) -> None:
        tier = ModelTier()
        await tier.start()
        self.upload(tier, 0, 4)
        self.upload(tier, 3, 9)
        aux = await build(tier, self.LOG, AdoptFromTier(0, 6, 0))
        assert (aux.state.start_offset, aux.state.producer_snapshot) == (6, self.state(6).snapshot())

    async def test_bootstrap_rule_1_without_the_producers_of_its_start_it_is_not_adopted(self) -> None:
        tier = ModelTier()
        await tier.start()
        tier.drop_objects(self.upload(tier, 0, 2), IndexType.PRODUCER_SNAPSHOT)
        self.upload(tier, 3, 9)
        with pytest.raises(RemoteStorageError, match="no snapshot"):
            await build(tier, self.LOG, AdoptFromTier(0, 6, 0))

    async def test_bootstrap_rule_1_a_log_that_is_damaged_below_the_cut_is_corrupt(self) -> None:
        tier = ModelTier()
        await tier.start()
        self.upload(tier, 0, 9)
        tier.storage.tamper = lambda operation, data: (
            data[:66] + b"!" + data[67:] if operation == "fetch_log_segment" else data
        )
        with pytest.raises(RemoteStorageCorruptError, match="CRC"):
            await build(tier, self.LOG, AdoptFromTier(0, 6, 0))

    async def test_bootstrap_rule_2_it_is_the_history_below_a_whole_one(self) -> None:
        tier = ModelTier()
        await tier.start()
        tier.upload(self.LOST, 0, 7)
        above = segment(6, 9, (2, 6), size=len(self.LOG.batches(6, 10)))
        tier.upload(self.LOG, 6, 9)
        tier.storage.objects[above.segment_id, IndexType.LEADER_EPOCH] = encode_leader_epochs([EpochEntry(2, 6)])
        aux = await build(tier, self.LOG, AdoptFromTier(0, 10, 2))
        assert (aux.state.start_offset, aux.state.epochs) == (10, (EpochEntry(0, 0), EpochEntry(2, 6)))

    async def test_bootstrap_rule_1_a_lost_epoch_at_its_end_is_left_out(self) -> None:
        lost = model_log((0, 0), (1, 8), end=10)
        tier = ModelTier()
        await tier.start()
        tier.upload(lost, 0, 9)
        leader = StubLeader({PARTITION: self.LOG})
        builder = AuxStateBuilder(tier.storage, tier.metadata, ledger_wait_s=0.05)
        aux = await builder.build(PARTITION, AdoptFromTier(0, 6, 0), leader, self.LOG.leader_epoch)
        assert (aux.state.start_offset, aux.state.epochs) == (6, (EpochEntry(0, 0),))


class TestCoverage:
    """Rule 2: nothing is adopted over a gap."""

    async def test_bootstrap_rule_2_a_gap_below_the_start(self) -> None:
        log = worked_log()
        tier = ModelTier()
        await tier.start()
        tier.upload(log, 3, 5)
        with pytest.raises(LedgerBehindError, match=r"offsets \[0, 3\)"):
            await build(tier, log)
        assert (await build(tier, log, AdoptFromTier(3, 6, 2))).state.log_start_offset == 3

    async def test_bootstrap_rule_2_a_ledger_that_is_behind_is_awaited_and_wakes_the_follower(self) -> None:
        log = worked_log()
        tier = ModelTier()
        tier.metadata.hold()
        await tier.start()
        tier.upload(log, 0, 2)
        task = asyncio.create_task(build(tier, log, ledger_wait_s=60))
        await asyncio.sleep(0)
        tier.metadata.release()
        await asyncio.sleep(0)
        assert not task.done(), "segment 3-5 is still missing"
        tier.upload(log, 3, 5)
        async with asyncio.timeout(1):
            assert (await task).state.start_offset == 6

    async def test_bootstrap_rule_2_waking_up_does_not_fetch_again_what_was_verified(self) -> None:
        log = worked_log()
        tier = ModelTier()
        await tier.start()
        tier.upload(log, 3, 5)
        task = asyncio.create_task(build(tier, log, ledger_wait_s=60))
        for _ in range(20):
            await asyncio.sleep(0)
        fetched = len(tier.storage.calls)
        assert fetched == 3
        tier.upload(log, 0, 2)
        await task
        assert len(tier.storage.calls) == fetched

    async def test_bootstrap_rule_2_a_log_of_another_size_than_stated(self) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        tier.storage.tamper = lambda operation, data: data[:-1] if operation == "log_segment_size" else data
        with pytest.raises(RemoteStorageCorruptError, match="were uploaded"):
            await build(tier, log)


class TestMissingObjects:
    KINDS = (None, IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT)

    @pytest.fixture(autouse=True)
    def quick_settling(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tierfetch.fetcher.aux_state.LEDGER_SETTLE_S", 0.01)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_bootstrap_rule_3_of_a_segment_that_is_being_deleted_restarts_the_question(
        self, kind: IndexType | None
    ) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        last = segment(3, 5, (1, 3), (2, 5))
        tier.drop_objects(last, kind)

        def delete_meanwhile(call: str) -> None:
            tier.shared.append(update(last, RemoteLogSegmentState.DELETE_SEGMENT_STARTED))

        leader = StubLeader({PARTITION: log})
        leader.before_call = delete_meanwhile
        builder = AuxStateBuilder(tier.storage, tier.metadata, ledger_wait_s=0.05)
        with pytest.raises(AskAgainError, match="being deleted"):
            await builder.build(PARTITION, ADOPT_6, leader, log.leader_epoch)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_bootstrap_rule_3_any_other_miss_is_a_fault_of_the_tier_and_is_said(
        self, kind: IndexType | None
    ) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        tier.drop_objects(segment(3, 5), kind)
        missing = r"is finished in the remote log metadata, but not in the tier: no (log|snapshot|leader_epoch)"
        with pytest.raises(RemoteStorageError, match=missing):
            await build(tier, log)


async def test_another_upload_of_the_same_offsets_serves_where_the_first_is_damaged() -> None:
    log = worked_log()
    tier = await worked_tier(log)
    first = segment(3, 5).segment_id
    tier.storage.objects[first, IndexType.PRODUCER_SNAPSHOT] = b"\0"
    with pytest.raises(RemoteStorageCorruptError):
        await build(tier, log)
    tier.upload(log, 3, 5, number=77)
    assert (await build(tier, log)).state.start_offset == 6
    del tier.storage.objects[first, IndexType.PRODUCER_SNAPSHOT]
    assert (await build(tier, log)).state.start_offset == 6


CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda data: data[:-2],
    "empty": lambda data: b"",
    "wrong": lambda data: data[:-1] + bytes([data[-1] ^ 0xFF]),
    "foreign": lambda data: b"<html>404</html>",
}


class TestBrokenTier:
    @pytest.mark.parametrize("corruption", CORRUPTIONS)
    @pytest.mark.parametrize("object_kind", ["fetch_index snapshot", "fetch_index leader_epoch_checkpoint"])
    async def test_wrong_bytes_are_never_adopted(self, object_kind: str, corruption: str) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        corrupt = CORRUPTIONS[corruption]
        tier.storage.tamper = lambda operation, data: corrupt(data) if operation == object_kind else data
        with pytest.raises(RemoteStorageCorruptError, match="of segment"):
            await build(tier, log)

    @pytest.mark.parametrize("operation", ["fetch_index", "log_segment_size"])
    async def test_a_tier_that_hangs_meets_a_deadline(self, operation: str) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        tier.storage.hang_on.add(operation)
        with pytest.raises(RemoteStorageTimeoutError, match=r"did not end within 0\.05 s"):
            await build(tier, log, storage_deadline_s=0.05)

    @pytest.mark.parametrize("n", [1, 2, 3])
    async def test_every_remote_call_may_fail_and_a_retry_succeeds(self, n: int) -> None:
        log = worked_log()
        tier = await worked_tier(log)
        tier.storage.faults = FailNth(n)
        with pytest.raises(RemoteStorageError, match="injected"):
            await build(tier, log)
        assert (await build(tier, log)).state.start_offset == 6


async def test_finished_segments_waits_until_the_ledger_reaches_the_end() -> None:
    log = worked_log()
    tier = ModelTier()
    await tier.start()
    first = tier.upload(log, 0, 2)
    builder = AuxStateBuilder(tier.storage, tier.metadata, ledger_wait_s=60)
    task = asyncio.create_task(builder.finished_segments(PARTITION, 0, 6))
    await asyncio.sleep(0)
    last = tier.upload(log, 3, 5)
    found = await task
    assert [each.segment_id for each in found] == [first.segment_id, last.segment_id]
    impatient = AuxStateBuilder(tier.storage, tier.metadata, ledger_wait_s=0.01)
    with pytest.raises(LedgerBehindError):
        await impatient.finished_segments(PARTITION, 0, 7)


async def test_a_partition_that_is_not_followed_is_no_reason_to_wait() -> None:
    tier = ModelTier()
    log = worked_log()
    with pytest.raises(RemoteLogMetadataError):
        await build(tier, log)
