"""What would survive a crash of the machine, read from its disk alone."""

from __future__ import annotations

from pathlib import Path

from tierfetch.protocol.records import Record, build_batch
from tierfetch.quorum.core.state import NO_DIRECTORY_ID, ElectionState, ReplicaKey
from tierfetch.quorum.core.voters import VoterSet
from tierfetch.quorum.storage.election_file import encode_quorum_state
from tierfetch.sim.judges.durability import DurableLogs, DurableVote
from tierfetch.sim.machine.filesystem import Inode, SimFilesystem

DIRECTORY = Path("/data/t-0")


def batch(base_offset: int, count: int = 2, size: int = 10) -> bytes:
    records = [Record(base_offset + index, 0, None, bytes(size)) for index in range(count)]
    return build_batch(records, base_offset=base_offset)


class Machine:
    def __init__(self) -> None:
        self.files = SimFilesystem()
        self.files.make_directory(DIRECTORY)
        for path in (DIRECTORY, *DIRECTORY.parents[:-1]):
            self.files.sync_names(path.parent)
        self.logs = DurableLogs(lambda _: self.files)

    def segment(self, base_offset: int) -> Inode:
        return self.files.open(DIRECTORY / f"{base_offset:020}.log", create=True)

    def append(self, inode: Inode, *batches: bytes) -> None:
        for data in batches:
            inode.change(len(inode.content), data)

    def holds(self, end_offset: int) -> bool:
        return self.logs.holds("a", DIRECTORY, end_offset)


def test_only_what_was_synced_counts_and_only_under_a_durable_name() -> None:
    machine = Machine()
    first = machine.segment(0)
    machine.append(first, batch(0), batch(2))
    first.sync(1)
    assert not machine.holds(2)
    machine.files.sync_names(DIRECTORY)
    assert machine.holds(2)
    assert not machine.holds(3)
    first.sync(2)
    assert machine.holds(4)
    assert not machine.holds(5)


def test_a_snapshot_counts_with_all_its_bytes_under_a_durable_name() -> None:
    machine = Machine()
    newest = lambda: machine.logs.snapshot_end("a", DIRECTORY)  # noqa: E731
    assert newest() == 0
    for end_offset, suffix in ((7, ".checkpoint"), (30, ".checkpoint.part"), (5, ".checkpoint")):
        inode = machine.files.open(DIRECTORY / f"{end_offset:020}-0000000003{suffix}", create=True)
        inode.change(0, b"a snapshot")
        inode.sync(1)
    machine.files.open(DIRECTORY / "leader-epoch-checkpoint", create=True)
    assert newest() == 0
    machine.files.sync_names(DIRECTORY)
    assert newest() == 7
    machine.files.open(DIRECTORY / f"{7:020}-0000000003.checkpoint", create=False).change(0, b"another")
    assert newest() == 5


def test_a_process_that_starts_finds_what_the_page_cache_has_up_to_the_first_gap() -> None:
    machine = Machine()
    found_end = lambda: machine.logs.found_end("a", DIRECTORY)  # noqa: E731
    assert found_end() == 0
    machine.append(machine.segment(4), batch(4), batch(6)[:-1])
    assert found_end() == 6
    machine.segment(8)
    assert found_end() == 6
    machine.segment(6)
    assert found_end() == 6
    machine.append(machine.files.open(DIRECTORY / f"{6:020}.log", create=False), batch(6))
    assert found_end() == 8


def test_a_compacted_log_has_gaps_also_where_a_segment_ends() -> None:
    machine = Machine()
    compacted = DurableLogs(lambda _: machine.files, lambda directory: directory == DIRECTORY)
    first, last = machine.segment(0), machine.segment(8)
    machine.append(first, batch(2))
    machine.append(last, batch(8))
    for inode in (first, last):
        inode.sync(1)
    machine.files.sync_names(DIRECTORY)
    assert compacted.found_end("a", DIRECTORY) == 10
    assert compacted.holds("a", DIRECTORY, 10)
    assert not compacted.holds("a", DIRECTORY, 11), "more than it has"
    assert not machine.holds(10)
    assert machine.logs.found_end("a", DIRECTORY) == 4
    machine.append(first, batch(4))
    assert not compacted.holds("a", DIRECTORY, 10), "what was written there last may be lost"


def test_a_half_written_batch_does_not_count() -> None:
    machine = Machine()
    first = machine.segment(0)
    machine.files.sync_names(DIRECTORY)
    machine.append(first, batch(0), batch(2)[:-1])
    first.sync(2)
    assert machine.holds(2)
    assert not machine.holds(3)
    machine.append(first, batch(2)[-1:])
    first.sync(3)
    assert machine.holds(4)


def test_a_file_that_was_cut_and_written_again_is_read_again() -> None:
    machine = Machine()
    first = machine.segment(0)
    machine.files.sync_names(DIRECTORY)
    machine.append(first, batch(0), batch(2), batch(4))
    first.sync(3)
    assert machine.holds(6)
    first.change(len(batch(0)), None)
    machine.append(first, batch(2, 1, 3))
    first.sync(5)
    assert machine.holds(3)
    assert not machine.holds(4)
    first.change(len(batch(0)), None)
    machine.append(first, batch(2, 3, 10), batch(5))
    first.sync(8)
    assert machine.holds(7)


def test_the_segment_that_has_the_last_record_is_asked() -> None:
    machine = Machine()
    first = machine.segment(0)
    machine.append(first, batch(0))
    first.sync(1)
    second = machine.segment(2)
    machine.append(second, batch(2))
    machine.files.sync_names(DIRECTORY)
    assert not machine.holds(3)
    second.sync(1)
    assert machine.holds(3)


def test_every_segment_below_is_asked_not_only_the_last() -> None:
    """The tail of the one that was rolled is not flushed with the next one."""
    machine = Machine()
    first = machine.segment(0)
    machine.append(first, batch(0), batch(2))
    first.sync(1)
    second = machine.segment(4)
    machine.append(second, batch(4))
    second.sync(1)
    machine.files.sync_names(DIRECTORY)
    assert not machine.holds(6)
    first.sync(2)
    assert machine.holds(6)


def test_a_segment_without_a_durable_name_is_not_there() -> None:
    machine = Machine()
    for base_offset in (0, 2, 4):
        segment = machine.segment(base_offset)
        machine.append(segment, batch(base_offset))
        segment.sync(1)
        if base_offset == 0:
            machine.files.sync_names(DIRECTORY)
    assert machine.holds(2)
    assert not machine.holds(4)


def test_a_segment_that_comes_in_by_a_rename_has_the_name_from_which_the_next_start_finishes_it() -> None:
    machine = Machine()
    place = DIRECTORY / f"{0:020}.log"
    for path, base_offset in ((Path(f"{place}.swap"), 0), (DIRECTORY / f"{2:020}.log", 2)):
        segment = machine.files.open(path, create=True)
        machine.append(segment, batch(base_offset))
        segment.sync(1)
    machine.files.sync_names(DIRECTORY)
    machine.files.rename(Path(f"{place}.swap"), place)
    assert machine.holds(4)


def test_what_was_deleted_is_not_asked_for_although_its_name_is_still_durable() -> None:
    machine = Machine()
    machine.append(machine.segment(0), batch(0))
    later = machine.segment(20)
    machine.append(later, batch(20))
    later.sync(1)
    machine.files.sync_names(DIRECTORY)
    assert not machine.holds(22)
    machine.files.remove(DIRECTORY / f"{0:020}.log")
    assert machine.holds(22)


def test_a_new_segment_says_that_what_lies_below_it_is_elsewhere_though_its_name_is_not_durable_yet() -> None:
    machine = Machine()
    machine.segment(10)
    assert machine.holds(10)
    assert not machine.holds(11)


def test_what_lies_below_the_first_segment_is_not_asked_for() -> None:
    machine = Machine()
    assert machine.holds(0)
    assert not machine.holds(1)
    machine.segment(10)
    machine.files.sync_names(DIRECTORY)
    assert machine.holds(10)
    assert not machine.holds(11)


def test_the_vote_is_that_of_the_durable_file() -> None:
    machine = Machine()
    path = DIRECTORY / "quorum-state"
    assert machine.logs.vote("a", DIRECTORY) is None
    for voted_id, is_synced in ((2, True), (3, False)):
        state = ElectionState(7, None, ReplicaKey(voted_id, NO_DIRECTORY_ID))
        data = encode_quorum_state(state, kraft_version=0, voters=VoterSet())
        machine.files.replace(path, data, sync=is_synced)
    assert machine.logs.vote("a", DIRECTORY) == DurableVote(7, 2)
