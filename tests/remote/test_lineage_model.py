"""Random histories of leaders, uploads and deletions: ledger and lineage agree with a model of one epoch per offset."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LeaderEpochCache
from tierfetch.remote.core import (
    IllegalTransitionError,
    RemoteLogLedger,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    covering,
    earliest_pending_upload,
    is_within_lineage,
)
from tierfetch.remote.core.lineage import end_on_lineage, highest_whole_on_lineage
from tierfetch.remote.core.segment import RemoteLogEvent

from .builders import DELETE_FINISHED, DELETE_STARTED, FINISHED, PARTITION, STARTED, segment, update


@dataclass
class Upload:
    metadata: RemoteLogSegmentMetadata
    epochs: dict[int, int]
    """Offset to epoch, of each offset in the segment."""
    state: RemoteLogSegmentState = STARTED


@dataclass
class World:
    """A leader's log as a list of epochs, and everything that was ever uploaded."""

    log: list[int] = field(default_factory=list)
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    epoch: int = 0
    log_start_offset: int = 0
    ledger: RemoteLogLedger = field(default_factory=lambda: RemoteLogLedger(PARTITION))
    uploads: list[Upload] = field(default_factory=list)
    events: list[RemoteLogEvent] = field(default_factory=list)

    def append(self, count: int) -> None:
        self.epochs.assign(self.epoch, len(self.log))
        self.log += [self.epoch] * count

    def elect(self, lost: int) -> None:
        """A replica leads that lacks the last `lost` records; it writes its epoch down at once."""
        end = max(self.log_start_offset, len(self.log) - lost)
        del self.log[end:]
        self.epochs.truncate_from_end(end)
        self.epoch += 1
        self.epochs.assign(self.epoch, end)

    def start_copy(self, start: int, length: int) -> None:
        start = self.log_start_offset + start
        last = min(start + length, len(self.log) - 1)
        if start > last:
            return
        entries = [(entry.epoch, entry.start_offset) for entry in self.epochs.range(start, last + 1)]
        metadata = segment(len(self.uploads) + 1, start, last, *entries)
        self.uploads.append(Upload(metadata, {offset: self.log[offset] for offset in range(start, last + 1)}))
        self.send(metadata)

    def copy(self, start: int, length: int) -> None:
        count = len(self.uploads)
        self.start_copy(start, length)
        if len(self.uploads) > count:
            self.advance(count, FINISHED)

    def advance(self, number: int, state: RemoteLogSegmentState) -> None:
        """Move an upload on if the state is legal; the ledger must agree about that."""
        if not self.uploads:
            return
        upload = self.uploads[number % len(self.uploads)]
        legal = state - upload.state == 1 or (upload.state, state) == (STARTED, DELETE_STARTED)
        event = update(upload.metadata.segment_id.id.int, state)
        if not legal:
            version = self.ledger.version
            with suppress(IllegalTransitionError):
                assert not self.ledger.apply(event)
            assert self.ledger.version == version
            return
        upload.state = state
        self.send(event)

    def send(self, event: RemoteLogEvent) -> None:
        assert self.ledger.apply(event)
        assert not self.ledger.apply(event)
        self.events.append(event)

    def raise_log_start(self, count: int) -> None:
        self.log_start_offset = min(self.log_start_offset + count, len(self.log))
        self.epochs.truncate_from_start(self.log_start_offset)

    def finished(self) -> list[Upload]:
        return [upload for upload in self.uploads if upload.state is FINISHED]

    def is_whole(self, upload: Upload) -> bool:
        last = max(upload.epochs)
        known = [offset for offset in upload.epochs if offset >= self.log_start_offset]
        return bool(known) and last < len(self.log) and all(self.log[o] == upload.epochs[o] for o in known)

    def agreeing(self, upload: Upload) -> list[int]:
        """The offsets of the upload that are still in the log: up to the first that another leader has overwritten."""
        known = [offset for offset in upload.epochs if offset >= self.log_start_offset]
        return [*takewhile(lambda o: o < len(self.log) and self.log[o] == upload.epochs[o], known)]


small = st.integers(0, 6)
ranges = st.integers(0, 25), st.integers(0, 12)
operations = st.one_of(
    st.tuples(st.just("append"), st.integers(3, 12)),
    st.tuples(st.just("elect"), small),
    st.tuples(st.just("copy"), *ranges),
    st.tuples(st.just("copy"), *ranges),
    st.tuples(st.just("start_copy"), *ranges),
    st.tuples(st.just("advance"), st.integers(0, 30), st.just(FINISHED)),
    st.tuples(st.just("advance"), st.integers(0, 30), st.sampled_from([DELETE_STARTED, DELETE_FINISHED])),
    st.tuples(st.just("raise_log_start"), st.integers(1, 4)),
)
histories = st.lists(operations, min_size=10, max_size=40)


def run(history: list[tuple]) -> World:
    world = World()
    world.epochs.assign(0, 0)
    for name, *arguments in history:
        getattr(world, name)(*arguments)
    return world


@given(histories)
@settings(max_examples=75, deadline=None)
def test_find_agrees_with_the_model(history: list[tuple]) -> None:
    world = run(history)
    finished = world.finished()
    for epoch in range(world.epoch + 1):
        for offset in range(70):
            holders = [upload for upload in finished if upload.epochs.get(offset) == epoch]
            found = world.ledger.find(epoch, offset)
            assert (found is None) == (not holders)
            if found is not None:
                reach = max(o for upload in holders for o, e in upload.epochs.items() if e == epoch)
                assert found.segment_id in {upload.metadata.segment_id for upload in holders}
                assert max(last for e, _, last in found.epoch_ranges() if e == epoch) == reach


@given(histories)
@settings(max_examples=75, deadline=None)
def test_lineage_agrees_with_the_model(history: list[tuple]) -> None:
    world = run(history)
    end = len(world.log)
    whole = [upload for upload in world.finished() if world.is_whole(upload)]
    for upload in world.uploads:
        assert is_within_lineage(upload.metadata, world.epochs, end) == world.is_whole(upload)
    best = highest_whole_on_lineage(world.ledger, world.epochs, end)
    assert (best.end_offset if best else None) == max((u.metadata.end_offset for u in whole), default=None)

    coverage = covering(world.ledger, world.epochs, world.log_start_offset, end)
    held = {offset for upload in world.finished() for offset in world.agreeing(upload)}
    missing = [offset for offset in range(world.log_start_offset, end) if offset not in held]
    assert (coverage.gap.start_offset if coverage.gap else None) == (missing[0] if missing else None)
    position = world.log_start_offset
    for metadata in coverage.segments:
        assert metadata.start_offset <= position <= metadata.end_offset
        position = end_on_lineage(metadata, world.epochs, end)
    if coverage.gap:
        later = [offset for offset in held if offset > coverage.gap.start_offset]
        assert coverage.gap.end_offset == min(later, default=end)


@given(histories, small)
@settings(max_examples=75, deadline=None)
def test_F2_pending_upload_agrees_with_the_model(history: list[tuple], local: int) -> None:
    world = run(history)
    end = len(world.log)
    local_start = min(world.log_start_offset + local, end)
    answer = earliest_pending_upload(
        world.ledger,
        world.epochs,
        log_start_offset=world.log_start_offset,
        local_log_start_offset=local_start,
        log_end_offset=end,
    )
    ends = [upload.metadata.end_offset + 1 for upload in world.finished() if world.is_whole(upload)]
    if not ends and local_start > world.log_start_offset:
        assert answer is None
        return
    assert answer is not None
    assert answer.offset == max([local_start, *ends])
    if answer.offset < end:
        assert answer.leader_epoch == world.log[answer.offset]
    else:
        assert answer.leader_epoch == world.epochs.latest_epoch


@given(histories)
@settings(max_examples=50, deadline=None)
def test_replay_of_the_events_gives_the_same_ledger(history: list[tuple]) -> None:
    """A duplicate of each event right behind it, too."""
    world = run(history)
    replayed = RemoteLogLedger(PARTITION)
    for event in world.events:
        replayed.apply(event)
        replayed.apply(event)
    assert replayed.version == world.ledger.version
    assert replayed.segments() == world.ledger.segments()
    assert replayed.finished() == world.ledger.finished()
