"""Which open transactions of partitions no coordinator will end (KIP-664, KIP-890). Pure.

A partition's leader knows a producer whose transaction is open there: the last stable offset stays below it, and
consumers with `isolation.level=read_committed` read no further. It ends when its coordinator writes a marker. The rows
are looked at in their order:

| what is known of the producer's transaction                             | it hangs                                  |
|-------------------------------------------------------------------------|-------------------------------------------|
| its last record is younger than the longest transaction may take        | no: it may still end by itself            |
| no coordinator knows a transactional id with this producer id           | yes                                       |
| the coordinator has no transaction, or none with this partition          | yes                                       |
| the coordinator has it with this partition                              | no: its timeout ends it                   |
| the coordinator did not say                                              | not known, so it is not reported          |

Two answers are never of one moment. So the coordinator is asked after the leader: a transaction that began meanwhile is
one with this partition, and one that ended meanwhile had its last record within the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...light_dataclass import dataclass
from ...protocol import TopicPartition

NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer that a partition's leader knows; `start_offset` of its open transaction, `NO_TRANSACTION` for none."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A transaction as its coordinator has it; `partitions` are those in it now."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: Collection[TopicPartition]


def old_open(producers: Sequence[Producer], *, now_ms: int, longer_than_ms: int) -> list[Producer]:
    """Return the producers with an open transaction whose last record is older than that."""
    return [
        each
        for each in producers
        if each.start_offset != NO_TRANSACTION and now_ms - each.last_timestamp_ms > longer_than_ms
    ]


def hanging(
    candidates: Sequence[Producer], ids: Mapping[int, str], described: Mapping[str, Described | None]
) -> list[Producer]:
    """Return those of the candidates that hang. `ids`: transactional ids by producer id, of all coordinators;
    `described`: what the coordinators have of these, None for nothing; one that did not say is left out.
    """
    return [each for each in candidates if _hangs(each, ids, described)]


def _hangs(producer: Producer, ids: Mapping[int, str], described: Mapping[str, Described | None]) -> bool:
    transactional_id = ids.get(producer.producer_id)
    if transactional_id is None:
        return True
    if transactional_id not in described:
        return False
    found = described[transactional_id]
    return found is None or producer.partition not in found.partitions
