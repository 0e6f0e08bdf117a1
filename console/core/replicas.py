"""The sign of each replica, and its bar.

The first row of this table that holds is the replica's sign:

    sign           when
    -------------  ---------------------------------------------------------------------------------------------------
    offline        its broker is not alive
    unreachable    its broker does not answer the console: what the cluster says of the replica may be old
    failed         its log does not let it serve, or its log directory is offline
    bootstrapping  it is outside the ISR, and a reassignment adds it or it holds nothing yet
    catching up    it is outside the ISR
    warming        it is being filled from the tier
    thin           the tier holds most of what it lacks
    leader, in sync

A bar is the partition's offsets from the log start to the end. Of the leader the parts are exact. A follower reports
bytes alone (DescribeLogDirs): its share of the leader's bytes stands for its share of the leader's local offsets, at
the end of the log for a replica in the ISR, else at the beginning of what the leader has locally.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from enum import StrEnum
from itertools import pairwise

from ...light_dataclass import dataclass
from .state import Key, Offsets, Partition


class Sign(StrEnum):
    """What is said of a replica in one word."""

    OFFLINE = "offline"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    BOOTSTRAPPING = "bootstrapping"
    CATCHING_UP = "catching up"
    WARMING = "warming"
    THIN = "thin"
    LEADER = "leader"
    IN_SYNC = "in sync"


class PartKind(StrEnum):
    """Where the offsets of a part of a bar are."""

    REMOTE = "remote"
    LOCAL = "local"
    PENDING = "pending"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """What a broker says of one replica (DescribeLogDirs). `warm_in_ms` None: it is not thin.

    `tier_error`: why its last work in the tier failed; None if that succeeded.
    """

    size_bytes: int
    warming_bytes_left: int | None = None
    warming_seconds_left: int | None = None
    warm_in_ms: int | None = None
    is_out_of_service: bool = False
    tier_error: str | None = None


Disk = Mapping[Key, OnDisk]
"""All replicas of one broker."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar, from 0 to 1."""

    kind: PartKind
    start: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBar:
    """A replica as it is drawn. `progress` from 0 to 1 while it is being filled."""

    broker: int
    sign: Sign
    is_in_isr: bool
    size_bytes: int | None = None
    progress: float | None = None
    seconds_left: int | None = None
    parts: tuple[BarPart, ...] = field(default=())
    is_estimate: bool = False


def replica_bars(
    partition: Partition,
    offsets: Offsets | None,
    disks: Mapping[int, Disk],
    alive: Collection[int],
    adding: Collection[int] = (),
    unreachable: Collection[int] = (),
) -> tuple[ReplicaBar, ...]:
    """Return the bars of a partition's replicas, in their order. `disks`: of the brokers that answered."""
    serving = frozenset(alive) - frozenset(unreachable)
    held = {broker: disks[broker].get(partition.key) for broker in partition.replicas if broker in disks}
    leader = held.get(partition.leader)
    return tuple(
        _bar(partition, offsets, broker, sign, held.get(broker), leader)
        for broker in partition.replicas
        for sign in [_sign(partition, broker, held, adding) if broker in serving else _away(broker, alive)]
    )


def _away(broker: int, alive: Collection[int]) -> Sign:
    return Sign.UNREACHABLE if broker in alive else Sign.OFFLINE


def _sign(
    partition: Partition,
    broker: int,
    held: Mapping[int, OnDisk | None],
    adding: Collection[int],
) -> Sign:
    """The sign of a replica whose broker is alive and answers."""
    found = held.get(broker)
    if broker in partition.offline or (found is not None and found.is_out_of_service):
        return Sign.FAILED
    if broker not in partition.isr:
        is_empty = broker in held and (found is None or found.size_bytes == 0)
        return Sign.BOOTSTRAPPING if is_empty or broker in adding else Sign.CATCHING_UP
    if found is not None and found.warming_bytes_left is not None:
        return Sign.WARMING
    if found is not None and found.warm_in_ms is not None:
        return Sign.THIN
    return Sign.LEADER if broker == partition.leader else Sign.IN_SYNC


def _bar(
    partition: Partition,
    offsets: Offsets | None,
    broker: int,
    sign: Sign,
    found: OnDisk | None,
    leader: OnDisk | None,
) -> ReplicaBar:
    is_leader = broker == partition.leader
    is_in_isr = broker in partition.isr
    share = 1.0 if is_leader else _share(found, leader)
    parts = () if offsets is None or share is None else _parts(offsets, share, is_at_end=is_in_isr)
    return ReplicaBar(
        broker=broker,
        sign=sign,
        is_in_isr=is_in_isr,
        size_bytes=None if found is None else found.size_bytes,
        progress=_progress(sign, found, share),
        seconds_left=None if found is None else found.warming_seconds_left,
        parts=parts,
        is_estimate=bool(parts) and not is_leader,
    )


def _share(found: OnDisk | None, leader: OnDisk | None) -> float | None:
    """The replica's share of the leader's local bytes, at most 1; None if one of them is not known."""
    if found is None or leader is None:
        return None
    return 1.0 if leader.size_bytes == 0 else min(1.0, found.size_bytes / leader.size_bytes)


def _progress(sign: Sign, found: OnDisk | None, share: float | None) -> float | None:
    if found is not None and found.warming_bytes_left is not None:
        total = found.size_bytes + found.warming_bytes_left
        return 1.0 if total == 0 else found.size_bytes / total
    return share if sign in (Sign.BOOTSTRAPPING, Sign.CATCHING_UP) else None


def _parts(offsets: Offsets, share: float, *, is_at_end: bool) -> tuple[BarPart, ...]:
    """Cut the range of offsets at what is local, and at the next upload."""
    first, end = offsets.earliest, offsets.latest
    if first is None or end is None or end <= first:
        return ()
    leaders = min(max(first if offsets.local is None else offsets.local, first), end)
    held = share * (end - leaders)
    local, local_end = (end - held, float(end)) if is_at_end else (float(leaders), leaders + held)
    upload = offsets.next_upload
    in_tier_up_to = first if upload is None else min(max(upload, first), end)
    cuts = sorted({float(first), local, local_end, float(in_tier_up_to), float(end)})
    found: list[BarPart] = []
    for start, stop in pairwise(cuts):
        is_local, is_tiered = local <= start < local_end, start < in_tier_up_to
        kind = _kind(is_local=is_local, is_tiered=is_tiered, has_tier=upload is not None)
        part = BarPart(kind, (start - first) / (end - first), (stop - start) / (end - first))
        if found and found[-1].kind is kind:
            part = BarPart(kind, found[-1].start, found.pop().width + part.width)
        found.append(part)
    return tuple(found)


def _kind(*, is_local: bool, is_tiered: bool, has_tier: bool) -> PartKind:
    if is_local:
        return PartKind.LOCAL if is_tiered or not has_tier else PartKind.PENDING
    return PartKind.REMOTE if is_tiered else PartKind.MISSING
