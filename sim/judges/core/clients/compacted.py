"""Judges of the replicas of a compacted partition when a run has converged. Pure: values in, anomalies out.

Each replica compacts for itself: the batches of two differ, and so do the offsets that they still have.

| anomaly          | found when                                                                                      |
|------------------|-------------------------------------------------------------------------------------------------|
| divergence       | two replicas have different records at one offset below the high watermark                      |
| compacted away   | the last record of a key on one replica is not that on another one; deleted keys may be missing  |
| disorder         | the batches of a replica do not rise, or do not reach its log end                               |
| epoch mismatch   | a leader-epoch cache has another epoch than a batch that is still there                          |
| not converged    | replicas end at different offsets, or an ISR is not whole                                       |
| lost value       | of a key the last acknowledged value is neither there, nor one that was sent after it            |
| foreign value    | a key has a value that was never sent                                                           |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from .....light_dataclass import dataclass
from .....protocol.records import iter_records
from ..acknowledged_writes import Anomaly
from ..replicas import ReplicaState, StoredBatch, differing_epochs, not_converged

Records = Mapping[int, tuple[bytes, bytes | None]]
"""Key and value by offset."""


@dataclass(slots=True)
class KeyHistory:
    """The values that were sent under a key, in order, None to delete it; one batch at a time."""

    sent: list[bytes | None] = field(default_factory=list)
    acknowledged: int = 0
    """How many of them there were when one was acknowledged last: that one, or a later one, is the last."""


def check_compacted(replicas: Sequence[ReplicaState], leader_id: int, isr: Iterable[int]) -> list[Anomaly]:
    """All rows of the table but those of values, for one partition."""
    leader = next((replica for replica in replicas if replica.node_id == leader_id), None)
    if leader is None:
        return [Anomaly("not converged", replicas[0].partition if replicas else "?", f"leader {leader_id} is missing")]
    found = list(not_converged(leader, replicas, set(isr)))
    reference = records_of(leader.batches)
    for replica in replicas:
        found += _disorder(replica)
        found += differing_epochs(
            replica.partition, f"replica {replica.node_id}", replica.epochs, replica.batches, replica.log_start_offset
        )
        found += _divergence(replica, leader, records_of(replica.batches), reference)
    return found


def records_of(batches: Iterable[StoredBatch]) -> dict[int, tuple[bytes, bytes | None]]:
    """All records, by offset."""
    return {
        record.offset: (record.key or b"", record.value)
        for batch in batches
        if not batch.header.is_control
        for record in iter_records(batch.data)
    }


def last_of(records: Records) -> dict[bytes, tuple[int, bytes | None]]:
    """The last record of each key: offset and value."""
    return {key: (offset, value) for offset, (key, value) in sorted(records.items())}


def check_values(partition: str, histories: Mapping[bytes, KeyHistory], records: Records) -> list[Anomaly]:
    """What of the histories of all keys is lost from the records of a log."""
    last = last_of(records)
    found = []
    for key, history in sorted(histories.items()):
        _, value = last.get(key, (-1, None))
        allowed = history.sent[max(0, history.acknowledged - 1) :] + ([] if history.acknowledged else [None])
        if value not in allowed:
            kind = "lost value" if value is None or value in history.sent else "foreign value"
            wanted = history.sent[history.acknowledged - 1]
            detail = f"key {key!r} is {_short(value)}, acknowledged last was {_short(wanted)}"
            found.append(Anomaly(kind, partition, detail))
    return found


def _disorder(replica: ReplicaState) -> Iterator[Anomaly]:
    for left, right in pairwise(replica.batches):
        if right.base_offset < left.next_offset:
            detail = (
                f"replica {replica.node_id}: a batch at {right.base_offset} comes after one up to {left.next_offset}"
            )
            yield Anomaly("disorder", replica.partition, detail)
    end = replica.batches[-1].next_offset if replica.batches else replica.log_start_offset
    if end > replica.log_end_offset:
        yield Anomaly("disorder", replica.partition, f"replica {replica.node_id} has batches up to {end}")


def _divergence(replica: ReplicaState, leader: ReplicaState, records: Records, reference: Records) -> Iterator[Anomaly]:
    place = f"replicas {replica.node_id} and {leader.node_id}"
    for offset in sorted(records.keys() & reference.keys()):
        if records[offset] != reference[offset] and offset < replica.high_watermark:
            yield Anomaly("divergence", replica.partition, f"{place} have different records at {offset}")
    last, other = last_of(records), last_of(reference)
    for key in sorted(last.keys() | other.keys()):
        here, there = last.get(key, (-1, None)), other.get(key, (-1, None))
        if here != there and (here[1], there[1]) != (None, None):
            detail = f"{place}: the last of key {key!r} are {here[0]} and {there[0]}"
            yield Anomaly("compacted away", replica.partition, detail)


def _short(value: bytes | None) -> str:
    return "deleted" if value is None else repr(value[:16])
