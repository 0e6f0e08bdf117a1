"""Judges of what is on the disks and in the tier when a run has converged. Pure: values in, anomalies out.

| anomaly            | found when                                                                                    |
|--------------------|-----------------------------------------------------------------------------------------------|
| divergence         | two replicas, or a replica and the tier, differ in a byte of a batch below the high watermark |
| gap                | an offset of a log lies in neither tier; or a replica's batches do not follow each other      |
| missing object     | a remote segment on the leader's lineage is finished, and its object is not in the tier       |
| segment mismatch   | a finished remote segment does not hold just the offsets that its metadata says               |
| epoch mismatch     | at some offset of the log, or of a remote segment, a leader-epoch cache has another epoch     |
|                    | than the batch there; or its entries do not rise, or go beyond the end                        |
| producer mismatch  | a producer's state is not what the batches of the whole log say, as far as none has expired    |
| aborted mismatch   | the transaction indexes have other aborted transactions than the markers of the local batches |
| not converged      | replicas end at different offsets, or below it, or an ISR is not whole                        |

Time and offset index files are not compared: where segments begin and how often an index gets an entry is each
replica's own matter. The model of producer state here is written again, not the broker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from ....light_dataclass import dataclass
from ....log.core import EpochEntry
from ....protocol import CorruptRecordError
from ....protocol.records import BatchHeader, ControlType, control_type, iter_batches, iter_records
from .acknowledged_writes import Anomaly
from .partition import epoch_at, first_difference


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A whole batch as it is in a file."""

    header: BatchHeader
    data: bytes

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


@dataclass(frozen=True, slots=True)
class ProducerView:
    """The latest of one producer: its epoch, its last sequence and offset (-1: none), its open transaction's start.

    `known` are batches of that epoch by which a repetition is told, each by its last sequence and offset: a replica
    knows some, the log has all.
    """

    producer_epoch: int
    last_sequence: int
    last_offset: int
    transaction_start: int | None
    known: frozenset[tuple[int, int]] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Aborted:
    """A transaction that was aborted: whose, its first offset, and that of its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One replica at the end of a run. `batches` are the local ones, in order; `aborted` is what their transaction
    indexes say.
    """

    node_id: int
    partition: str
    log_start_offset: int
    local_log_start_offset: int
    high_watermark: int
    log_end_offset: int
    epochs: tuple[EpochEntry, ...]
    batches: tuple[StoredBatch, ...]
    producers: Mapping[int, ProducerView]
    aborted: tuple[Aborted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredSegment:
    """A finished remote segment: offsets [start_offset, end_offset], its object's batches (None: no object)."""

    name: str
    start_offset: int
    end_offset: int
    epochs: tuple[EpochEntry, ...]
    batches: tuple[StoredBatch, ...] | None


def batches_of(data: bytes) -> tuple[StoredBatch, ...]:
    """The whole batches of a segment file; CRCs are checked. CorruptRecordError."""
    return tuple(
        StoredBatch(header, bytes(data[position : position + header.size_bytes]))
        for position, header in iter_batches(data)
    )


def headers_of(data: bytes) -> Iterator[BatchHeader]:
    """Up to the first one that is damaged."""
    for _, header in placed_headers_of(data):
        yield header


def placed_headers_of(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The same, each with its position."""
    try:
        yield from iter_batches(data)
    except CorruptRecordError:
        return


def check_partition(
    replicas: Sequence[ReplicaState],
    tier: Sequence[TieredSegment],
    leader_id: int,
    isr: Iterable[int],
    *,
    is_at_rest: bool = True,
) -> list[Anomaly]:
    """All rows of the table for one partition; `tier` are the segments on the leader's lineage. One that is not at rest
    has not converged, either.
    """
    leader = next((replica for replica in replicas if replica.node_id == leader_id), None)
    if leader is None:
        partition = replicas[0].partition if replicas else "?"
        return [Anomaly("not converged", partition, f"leader {leader_id} has no replica")]
    anomalies = [*not_converged(leader, replicas, set(isr))] if is_at_rest else []
    reference = _whole_log(leader, tier)
    anomalies += _divergences(leader, reference, replicas)
    anomalies += _tier_divergences(leader, reference, tier)
    for segment in tier:
        anomalies += _segment_mismatches(leader, segment)
    for replica in replicas:
        anomalies += _gaps(replica, tier)
        anomalies += _epoch_mismatches(replica, reference)
        anomalies += _producer_mismatches(replica, reference)
        anomalies += _aborted_mismatches(replica, reference)
    return anomalies


def not_converged(leader: ReplicaState, replicas: Sequence[ReplicaState], isr: set[int]) -> Iterator[Anomaly]:
    nodes = {replica.node_id for replica in replicas}
    if isr != nodes:
        yield Anomaly("not converged", leader.partition, f"ISR {sorted(isr)} of replicas {sorted(nodes)}")
    for replica in replicas:
        if replica.log_end_offset != leader.log_end_offset:
            ends = f"ends at {replica.log_end_offset}, leader {leader.node_id} at {leader.log_end_offset}"
            yield Anomaly("not converged", leader.partition, f"replica {replica.node_id} {ends}")
    if leader.high_watermark != leader.log_end_offset:
        detail = f"the high watermark is {leader.high_watermark}, the log ends at {leader.log_end_offset}"
        yield Anomaly("not converged", leader.partition, detail)


def _whole_log(leader: ReplicaState, tier: Sequence[TieredSegment]) -> dict[int, StoredBatch]:
    """The leader's local batches, and below them what the tier holds, by base offset."""
    whole: dict[int, StoredBatch] = {}
    for segment in sorted(tier, key=lambda each: (each.epochs[-1].epoch, each.start_offset)):
        for batch in segment.batches or ():
            whole[batch.base_offset] = batch
    whole = {base: batch for base, batch in whole.items() if batch.next_offset <= leader.local_log_start_offset}
    whole |= {batch.base_offset: batch for batch in leader.batches}
    return dict(sorted(whole.items()))


def _divergences(
    leader: ReplicaState, reference: Mapping[int, StoredBatch], replicas: Sequence[ReplicaState]
) -> Iterator[Anomaly]:
    for replica in replicas:
        end = min(replica.high_watermark, leader.high_watermark)
        for batch in replica.batches:
            if batch.base_offset >= end or batch.base_offset < leader.log_start_offset:
                continue
            yield from _differs(replica.partition, f"replica {replica.node_id}", batch, reference)


def _tier_divergences(
    leader: ReplicaState, reference: Mapping[int, StoredBatch], tier: Sequence[TieredSegment]
) -> Iterator[Anomaly]:
    for segment in tier:
        if segment.batches is None:
            yield Anomaly("missing object", leader.partition, f"of the finished remote segment {segment.name}")
        for batch in segment.batches or ():
            if leader.log_start_offset <= batch.base_offset < leader.high_watermark:
                yield from _differs(leader.partition, f"remote segment {segment.name}", batch, reference)


def _differs(partition: str, place: str, batch: StoredBatch, reference: Mapping[int, StoredBatch]) -> Iterator[Anomaly]:
    other = reference.get(batch.base_offset)
    if other is None:
        yield Anomaly("divergence", partition, f"{place} has a batch at {batch.base_offset} that the leader has not")
    elif other.data != batch.data:
        epochs = (batch.header.partition_leader_epoch, other.header.partition_leader_epoch)
        detail = f"{place} has another batch at {batch.base_offset} (leader epochs {epochs[0]} and {epochs[1]})"
        yield Anomaly("divergence", partition, detail)


def _gaps(replica: ReplicaState, tier: Sequence[TieredSegment]) -> Iterator[Anomaly]:
    for left, right in pairwise(replica.batches):
        if left.next_offset != right.base_offset:
            detail = f"replica {replica.node_id} has nothing in [{left.next_offset}, {right.base_offset})"
            yield Anomaly("gap", replica.partition, detail)
    local_start = replica.batches[0].base_offset if replica.batches else replica.log_end_offset
    at = replica.log_start_offset
    for segment in sorted(tier, key=lambda each: each.start_offset):
        if segment.batches is None:
            continue
        covered = [batch for batch in segment.batches if batch.next_offset > at]
        for batch in covered:
            if batch.base_offset <= at:
                at = batch.next_offset
    if at < local_start:
        detail = f"replica {replica.node_id}: offset {at} is in neither tier, its local log begins at {local_start}"
        yield Anomaly("gap", replica.partition, detail)
    if replica.batches and replica.batches[-1].next_offset != replica.log_end_offset:
        detail = (
            f"replica {replica.node_id}: files end at {replica.batches[-1].next_offset}, not {replica.log_end_offset}"
        )
        yield Anomaly("gap", replica.partition, detail)


def _segment_mismatches(leader: ReplicaState, segment: TieredSegment) -> Iterator[Anomaly]:
    """Compare a segment with its batches. If the log start lay within it when it was copied, its epochs begin there."""
    partition, batches = leader.partition, segment.batches
    if not batches:
        return
    place, bases = f"remote segment {segment.name}", [batch.base_offset for batch in batches]
    last_offset = batches[-1].next_offset - 1
    is_whole = all(left.next_offset == right.base_offset for left, right in pairwise(batches))
    if (bases[0], last_offset) != (segment.start_offset, segment.end_offset) or not is_whole:
        detail = f"{place} is said to hold [{segment.start_offset}, {segment.end_offset}], and has {bases}"
        yield Anomaly("segment mismatch", partition, f"{detail} up to {last_offset}")
    start_offset = max(segment.start_offset, min(segment.epochs[0].start_offset, leader.log_start_offset))
    yield from differing_epochs(partition, place, segment.epochs, batches, start_offset)


def _epoch_mismatches(replica: ReplicaState, reference: Mapping[int, StoredBatch]) -> Iterator[Anomaly]:
    place, entries = f"replica {replica.node_id}", replica.epochs
    rise = all(left.epoch < right.epoch and left.start_offset < right.start_offset for left, right in pairwise(entries))
    if not rise or (entries and entries[-1].start_offset > replica.log_end_offset):
        detail = f"{place}: entries {entries} of a log that ends at {replica.log_end_offset}"
        yield Anomaly("epoch mismatch", replica.partition, detail)
    local_start = replica.batches[0].base_offset if replica.batches else replica.log_end_offset
    below = [batch for batch in reference.values() if batch.next_offset <= local_start]
    batches = [*below, *replica.batches]
    yield from differing_epochs(replica.partition, place, entries, batches, replica.log_start_offset)


def differing_epochs(
    partition: str, place: str, epochs: Sequence[EpochEntry], batches: Sequence[StoredBatch], start_offset: int
) -> Iterator[Anomaly]:
    """The first offset at or above `start_offset` of which the entries say something else than the batch there."""
    for batch in batches:
        epoch, start = batch.header.partition_leader_epoch, max(batch.base_offset, start_offset)
        found = first_difference(epochs, [EpochEntry(epoch, batch.base_offset)], start, batch.next_offset)
        if found is not None:
            detail = f"{place}: offset {found} has leader epoch {epoch}, the cache says {epoch_at(epochs, found)}"
            yield Anomaly("epoch mismatch", partition, detail)
            return


def _producer_mismatches(replica: ReplicaState, reference: Mapping[int, StoredBatch]) -> Iterator[Anomaly]:
    expected = producers_of(batch for batch in reference.values() if batch.next_offset <= replica.log_end_offset)
    for producer_id in sorted(expected.keys() | replica.producers.keys()):
        stated, right = replica.producers.get(producer_id), expected.get(producer_id)
        if not _is_right(stated, right, replica.log_start_offset):
            detail = f"replica {replica.node_id}: producer {producer_id} is {stated}, the batches say {right}"
            yield Anomaly("producer mismatch", replica.partition, detail)


def _is_right(stated: ProducerView | None, right: ProducerView | None, log_start_offset: int) -> bool:
    """Whether a replica says of a producer what the batches say. Of expired ones it may know, or have forgotten."""
    if stated is None:
        return right is None
    if right is None or right.last_offset < 0:
        is_same = stated.producer_epoch == right.producer_epoch if right is not None else log_start_offset > 0
        return is_same and stated.last_offset < log_start_offset and stated.transaction_start is None
    known = frozenset(each for each in stated.known if each[1] >= log_start_offset)
    return stated == right and known <= right.known


def _aborted_mismatches(replica: ReplicaState, reference: Mapping[int, StoredBatch]) -> Iterator[Anomaly]:
    """Where the first local batch begins the transaction indexes do, too. Of a transaction whose beginning has expired
    the batches do not tell where it was, or that it was there at all.
    """
    start = replica.batches[0].base_offset if replica.batches else replica.log_end_offset
    batches = [batch for batch in reference.values() if batch.next_offset <= replica.log_end_offset]
    stated = sorted(each for each in replica.aborted if each.marker_offset >= start)
    cut = {each.marker_offset for each in stated if each.first_offset < replica.log_start_offset}
    right = sorted(
        each for each in aborted_of(batches) if each.marker_offset >= start and each.marker_offset not in cut
    )
    stated = [each for each in stated if each.marker_offset not in cut]
    if stated != right:
        detail = f"replica {replica.node_id} has {stated} in its transaction indexes, the batches say {right}"
        yield Anomaly("aborted mismatch", replica.partition, detail)


def aborted_of(batches: Iterable[StoredBatch]) -> Iterator[Aborted]:
    """The aborted transactions of a log, from its beginning."""
    begun: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            first_offset = begun.pop(header.producer_id, None)
            is_abort = control_type(next(iter(iter_records(batch.data)))) is ControlType.ABORT
            if is_abort and first_offset is not None:
                yield Aborted(header.producer_id, first_offset, header.base_offset)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)


def producers_of(batches: Iterable[StoredBatch]) -> dict[int, ProducerView]:
    """What the batches of a log, from its beginning, say about its producers."""
    producers: dict[int, ProducerView] = {}
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        before = producers.get(header.producer_id)
        is_same = before is not None and before.producer_epoch == header.producer_epoch
        known = before.known if before is not None and is_same else frozenset()
        if header.is_control:
            kind = control_type(next(iter(iter_records(batch.data))))
            assert kind in (ControlType.COMMIT, ControlType.ABORT), (batch.base_offset, kind)
            last = (before.last_sequence, before.last_offset) if before is not None and is_same else (-1, -1)
            producers[header.producer_id] = ProducerView(header.producer_epoch, *last, None, known)
        else:
            start = before.transaction_start if before is not None else None
            if start is None and header.is_transactional:
                start = header.base_offset
            last = (header.last_sequence, header.last_offset)
            producers[header.producer_id] = ProducerView(header.producer_epoch, *last, start, known | {last})
    return producers
