"""From two snapshots of a live cluster to an inventory's document. Pure.

Offsets are exact, and so are the bytes of what is in the tier, by its segments in the remote log metadata:

    remote(a, b)         = bytes of the offsets [a, b) in the tier, each offset once
    size                 = local bytes + remote(log start, local log start)
    tiered               = remote(log start, next upload): what is in both tiers too. Apache Kafka does not say the
                           next upload of a partition with nothing pending: it is the offset after the last tiered one
    without a leader     local bytes of the largest replica; size at least the greater of these and all that is remote
    produced per second  = offsets between the two looks at the log end, in bytes
    lags                 of a replica out of sync on a live broker: its leader's local bytes less its own; only where
                         nothing is tiered, for else it may begin later than its leader

Where segments are not known (the metadata could not be read, or lack them) bytes are estimated: those that a record
takes in the partition's local log, else in its known segments, else in the topic's other partitions, stand for it.

What no response says, and an unknown size, is written as `FILL_IN`, which the model refuses by name until a
number stands there. Nothing unknown is taken as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

from ...light_dataclass import dataclass
from .remote_sizes import bytes_between, record_bytes
from .snapshot import NO_LEADER, BrokerState, DirectoryState, Offsets, PartitionState, RemoteSegment, Snapshot

FILL_IN: Final = "FILL-IN"
UNKNOWN_TO_ALL: Final[Mapping[str, str]] = {
    "nic_in_bytes_per_s": "what its network takes in, such as 10 Gbit/s",
    "nic_out_bytes_per_s": "what its network sends, such as 10 Gbit/s",
    "disk_read_bytes_per_s": "what its disks read in sequence, such as 500 MB/s",
    "disk_write_bytes_per_s": "what its disks write in sequence, such as 250 MB/s",
    "cores": "CPU cores",
}
"""The figures of each broker that no request returns."""
TIER_UNKNOWN: Final[Mapping[str, str]] = {
    "latency_ms": "of one request to the tier, such as 30",
    "bandwidth_bytes_per_s": "what the tier serves to all brokers together, such as 100 Gbit/s",
}
SIZE_UNKNOWN: Final[Mapping[str, str]] = {
    "size_bytes": "what it holds, local or in the tier, each offset once",
    "local_bytes": "what its leader holds on disk",
    "tiered_bytes": "what the tier holds of it, also what is local as well",
}
"""The figures of a partition, by key."""
KAFKA_OFF: Final = "kafka"
KAFKA_ON: Final = "kafka-last-tiered"
OURS_OFF: Final = "local-log-start"
UNLIMITED: Final = 2**63 - 1
OPTION: Final = "follower.fetch.last.tiered.offset.enable"
NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Captured:
    """`document` of an inventory, `unknown` (what to fill in, and how), and `remarks` about what was odd. `unsized`:
    the partitions that have a size to fill in.
    """

    document: dict[str, Any]
    unknown: tuple[str, ...]
    remarks: tuple[str, ...]
    unsized: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sizes:
    """None: not known."""

    size_bytes: float | None
    local_bytes: float | None
    tiered_bytes: float | None

    def items(self) -> Iterator[tuple[str, float | None]]:
        """The figures by key of the inventory."""
        yield "size_bytes", self.size_bytes
        yield "local_bytes", self.local_bytes
        yield "tiered_bytes", self.tiered_bytes


def capture(first: Snapshot, second: Snapshot | None, known: Mapping[str, str], name: str) -> Captured:
    """`known`: what the caller knows of every broker, by key of the inventory. Without a second look rates are zero."""
    remarks = list(first.remarks)
    topics, unsized = _topics(first, second)
    remarks += _unknown_lags(first)
    if second is not None:
        remarks += _changes(first, second)
    defaults = {key: known.get(key, FILL_IN) for key in UNKNOWN_TO_ALL}
    unknown = [f"broker_defaults {key}: {what}" for key, what in UNKNOWN_TO_ALL.items() if key not in known]
    brokers = [*(_broker(each, known) for each in first.brokers.values()), *_absent_brokers(first, known, remarks)]
    brokers.sort(key=lambda each: each["id"])
    unknown += [f"broker {each['id']} disk_bytes" for each in brokers if each["disk_bytes"] == FILL_IN]
    unknown += [f"{named(names)} {key}: {SIZE_UNKNOWN[key]}" for key, names in unsized.items()]
    document: dict[str, Any] = {"version": 1, "name": name, "broker_defaults": defaults, "brokers": brokers}
    if any(topic["tiered"] for topic in topics):
        document["tier"] = {key: known.get(f"tier.{key}", FILL_IN) for key in TIER_UNKNOWN}
        unknown += [f"tier {key}: {what}" for key, what in TIER_UNKNOWN.items() if f"tier.{key}" not in known]
    document |= _settings(list(first.brokers.values()), remarks)
    document["topics"] = topics
    if second is None:
        remarks.append("produce_bytes_per_s are not measured (--window 0): taken as 0 everywhere")
    remarks.append("consume_bytes_per_s is in no response: taken as 0 everywhere")
    if len({each["rack"] for each in brokers}) > 1:
        remarks.append("uplinks of racks are in no response: taken as without a limit")
    every = dict.fromkeys(name for names in unsized.values() for name in names)
    return Captured(document, tuple(unknown), tuple(remarks), tuple(every))


def named(names: Sequence[str]) -> str:
    """Return the first few of these, and how many more there are."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"


def assume_size(document: dict[str, Any], size_bytes: float) -> None:
    """Put a size where none is known: as many bytes in all, but no fewer than are known to be local or tiered; all of
    them to be copied where it is not known what the tier has.
    """
    for topic in document["topics"]:
        for partition in topic["partitions"]:
            local, tiered = partition["local_bytes"], partition["tiered_bytes"]
            known = [each for each in (local, tiered) if each != FILL_IN]
            if partition["size_bytes"] == FILL_IN:
                partition["size_bytes"] = max(size_bytes, *known, 0)
            size = partition["size_bytes"]
            partition["local_bytes"] = size if local == FILL_IN else local
            partition["tiered_bytes"] = size - partition["local_bytes"] if tiered == FILL_IN else tiered


# --- brokers and settings -------------------------------------------------------------------------------------------


class _Directory(TypedDict):
    """A log directory of the inventory."""

    path: str
    disk_bytes: NotRequired[int]
    used_bytes: int


class _Broker(TypedDict):
    """A broker of the inventory; its log directories where there are several."""

    id: int
    rack: str
    disk_bytes: int | str
    log_dirs: NotRequired[list[_Directory]]


def _broker(broker: BrokerState, known: Mapping[str, str]) -> _Broker:
    disk_bytes = broker.disk_bytes if broker.disk_bytes is not None else FILL_IN
    found: _Broker = {"id": broker.id, "rack": broker.rack or "", "disk_bytes": known.get("disk_bytes", disk_bytes)}
    if len(broker.directories) > 1:
        found["log_dirs"] = [_directory(each) for each in broker.directories]
    return found


def _directory(state: DirectoryState) -> _Directory:
    found: _Directory = {"path": state.path, "used_bytes": max(0, state.used_bytes)}
    return found if state.disk_bytes is None else {**found, "disk_bytes": state.disk_bytes}


def _absent_brokers(snapshot: Snapshot, known: Mapping[str, str], remarks: list[str]) -> list[_Broker]:
    """Return the brokers that hold replicas but are absent now: they belong in the inventory too."""
    assigned = {replica for state in snapshot.partitions.values() for replica in state.replicas}
    absent = sorted(assigned - snapshot.brokers.keys())
    if absent:
        names = ", ".join(map(str, absent))
        unknown = "disk" if snapshot.racks.keys() >= {*absent} else "rack and disk"
        remarks.append(f"brokers {names} hold replicas but are not alive: {unknown} unknown")
    return [_broker(BrokerState(id=broker, rack=snapshot.racks.get(broker)), known) for broker in absent]


def _settings(brokers: Sequence[BrokerState], remarks: list[str]) -> dict[str, object]:
    """Policy, throttle and pace of tiering: of the first broker, and it is said where others differ."""
    found = [(broker, _settings_of(broker.configs)) for broker in brokers]
    ours = found[0][1]
    for key in sorted({key for _, settings in found for key in settings}):
        values = {str(settings.get(key)) for _, settings in found}
        if len(values) > 1:
            each = ", ".join(f"{settings.get(key)} on broker {broker.id}" for broker, settings in found)
            remarks.append(f"{key} differs: {each}; the first is taken for all")
    return ours


def _settings_of(configs: Mapping[str, str]) -> dict[str, object]:
    policy = _policy(configs)
    settings: dict[str, object] = {"bootstrap_policy": policy}
    throttle = _limit(configs.get("follower.replication.throttled.rate"))
    if throttle is not None:
        settings["throttle_bytes_per_s"] = throttle
    if policy == "bounded-local":
        settings["bounded_local"] = {
            "bytes_min": max(0, int(configs.get("bootstrap.bounded.local.bytes", "0"))),
            "seconds_min": max(0, int(configs.get("bootstrap.bounded.local.ms", "0"))) / 1000,
        }
    copy = _limit(configs.get("remote.log.manager.copy.max.bytes.per.second"))
    interval = configs.get("remote.log.manager.task.interval.ms")
    if interval is not None:
        settings["rlm"] = {"interval_s": int(interval) / 1000} | ({} if copy is None else {"copy_bytes_per_s": copy})
    return settings


def _policy(configs: Mapping[str, str]) -> str:
    """Only tierfetch has a config that names it."""
    is_on = configs.get(OPTION) == "true"
    own = configs.get("bootstrap.policy")
    if own is None:
        return KAFKA_ON if is_on else KAFKA_OFF
    return own if is_on else OURS_OFF


def _limit(text: str | None) -> int | None:
    return None if text is None or not 0 < int(text) < UNLIMITED else int(text)


# --- topics ---------------------------------------------------------------------------------------------------------


def _topics(first: Snapshot, second: Snapshot | None) -> tuple[list[dict[str, object]], dict[str, list[str]]]:
    """The topics, and by key the partitions whose size is not known."""
    by_topic: dict[str, list[PartitionState]] = {}
    for state in first.partitions.values():
        by_topic.setdefault(state.topic, []).append(state)
    topics: list[dict[str, object]] = []
    unsized: dict[str, list[str]] = {}
    for name in sorted(by_topic):
        states = sorted(by_topic[name], key=lambda state: state.index)
        usual = _usual_record_bytes(first, states)
        configs = first.topic_configs.get(name, {})
        partitions = []
        for state in states:
            sizes = _sizes(first, state, usual)
            for key, size in sizes.items():
                if size is None:
                    unsized.setdefault(key, []).append(state.name)
            rate = 0.0 if second is None else _produce_rate(first, second, state, usual)
            partitions.append(_partition(state, sizes, rate) | _lags(first, state))
        topic = {
            "name": name,
            "tiered": first.is_tiered(name),
            "min_insync_replicas": int(configs.get("min.insync.replicas", "1")),
            "segment_bytes": int(configs.get("segment.bytes", 1 << 30)),
        }
        topics.append(topic | {"partitions": partitions})
    return topics, unsized


def _lags(snapshot: Snapshot, state: PartitionState) -> dict[str, object]:
    """What live followers out of sync lack, where that can be known; nothing where there are none."""
    whole = snapshot.local_bytes.get((state.leader, state.topic, state.index))
    if whole is None or snapshot.is_tiered(state.topic):
        return {}
    lacks = {
        each: whole - snapshot.local_bytes[each, state.topic, state.index] for each in _out_of_sync(snapshot, state)
    }
    found = [{"broker": each, "bytes": missing} for each, missing in lacks.items() if missing > 0]
    return {"lags": found} if found else {}


def _out_of_sync(snapshot: Snapshot, state: PartitionState) -> list[int]:
    """The followers that are alive, hold something, and are not in the ISR."""
    return [
        each
        for each in state.replicas
        if each not in (*state.isr, state.leader) and (each, state.topic, state.index) in snapshot.local_bytes
    ]


def _unknown_lags(snapshot: Snapshot) -> list[str]:
    names = [
        state.name
        for state in snapshot.partitions.values()
        if state.leader != NO_LEADER and snapshot.is_tiered(state.topic) and _out_of_sync(snapshot, state)
    ]
    if not names:
        return []
    return [f"{named(names)}: tiered, with followers out of sync; what these lack is not known, and taken as nothing"]


def _partition(state: PartitionState, sizes: _Sizes, produce_bytes_per_s: float) -> dict[str, object]:
    isr = state.isr if state.leader == NO_LEADER or state.leader in state.isr else (state.leader, *state.isr)
    log_start = 0 if state.offsets is None else state.offsets.log_start or 0
    return {
        "index": state.index,
        "replicas": list(state.replicas),
        "leader": state.leader,
        "isr": [replica for replica in isr if replica in state.replicas],
        **{key: FILL_IN if size is None else round(size) for key, size in sizes.items()},
        "produce_bytes_per_s": round(produce_bytes_per_s),
        "log_start_offset": log_start,
    }


def _local_bytes(snapshot: Snapshot, state: PartitionState) -> int | None:
    """On the leader; without one, the largest replica's."""
    own = snapshot.local_bytes.get((state.leader, state.topic, state.index))
    if own is not None:
        return own
    others = (snapshot.local_bytes.get((broker, state.topic, state.index)) for broker in state.replicas)
    return max((size for size in others if size is not None), default=None)


def _segments(snapshot: Snapshot, state: PartitionState) -> Sequence[RemoteSegment]:
    return () if snapshot.remote is None else snapshot.remote.get((state.topic, state.index), ())


def _record_bytes(snapshot: Snapshot, state: PartitionState) -> float | None:
    """Bytes that an offset takes in the local log; where that holds nothing, in the tier; None where both do not."""
    offsets, local = state.offsets, _local_bytes(snapshot, state)
    if offsets is not None and local and offsets.log_end is not None:
        local_start = _local_start(offsets)
        if offsets.log_end > local_start:
            return local / (offsets.log_end - local_start)
    return record_bytes(_segments(snapshot, state))


def _usual_record_bytes(snapshot: Snapshot, states: Sequence[PartitionState]) -> float | None:
    found = [each for each in (_record_bytes(snapshot, state) for state in states) if each is not None]
    return sum(found) / len(found) if found else None


def _local_start(offsets: Offsets) -> int:
    start = offsets.local_log_start if offsets.local_log_start is not None else offsets.log_start
    return start or 0


def _sizes(snapshot: Snapshot, state: PartitionState, usual: float | None) -> _Sizes:
    local, offsets = _local_bytes(snapshot, state), state.offsets
    if not snapshot.is_tiered(state.topic):
        return _Sizes(local, local, 0.0)
    segments = _segments(snapshot, state)
    if offsets is None or offsets.log_end is None:
        return _leaderless(local, segments)
    record = _record_bytes(snapshot, state) or usual
    log_start = offsets.log_start or 0
    below = _remote_bytes(segments, log_start, _local_start(offsets), record)
    tiered = _remote_bytes(segments, log_start, min(_next_upload(offsets, segments), offsets.log_end), record)
    if local is None or below is None:
        return _Sizes(None, local, tiered)
    size = local + below
    return _Sizes(size, local, None if tiered is None else min(size, max(tiered, below)))


def _leaderless(local: int | None, segments: Sequence[RemoteSegment]) -> _Sizes:
    """No response says where the local log begins: all of it may be in the tier as well."""
    if not segments:
        return _Sizes(None, local, None)
    first, end = min(each.start_offset for each in segments), max(each.end_offset for each in segments) + 1
    tiered, _ = bytes_between(segments, first, end)
    return _Sizes(None if local is None else max(local, tiered), local, tiered)


def _remote_bytes(segments: Sequence[RemoteSegment], first: int, end: int, record: float | None) -> float | None:
    """Bytes of [first, end) in the tier, where segments are unknown at so many a record; None: not known."""
    known, missing = bytes_between(segments, first, end)
    if not missing:
        return known
    record = record_bytes(segments) or record
    return None if record is None else known + missing * record


def _next_upload(offsets: Offsets, segments: Sequence[RemoteSegment]) -> int:
    """Take the figure from the leader; if it gives none, from the segments."""
    if offsets.next_upload is not None:
        return offsets.next_upload
    if offsets.last_tiered is not None:
        return offsets.last_tiered + 1
    return max((each.end_offset + 1 for each in segments), default=offsets.log_start or 0)


def _produce_rate(first: Snapshot, second: Snapshot, state: PartitionState, usual: float | None) -> float:
    after = second.partitions.get((state.topic, state.index))
    if after is None or state.offsets is None or after.offsets is None:
        return 0.0
    begin, end = state.offsets.log_end, after.offsets.log_end
    seconds = after.offsets.seen_at_s - state.offsets.seen_at_s
    if begin is None or end is None or end <= begin or seconds <= 0:
        return 0.0
    record = _record_bytes(first, state) or usual or _record_bytes(second, after) or 0.0
    return (end - begin) * record / seconds


def _changes(first: Snapshot, second: Snapshot) -> list[str]:
    gone = sorted(f"{topic}-{index}" for topic, index in first.partitions.keys() - second.partitions.keys())
    moved = sorted(
        state.name
        for key, state in second.partitions.items()
        if key in first.partitions and first.partitions[key].leader != state.leader
    )
    remarks = []
    for names, what in ((gone, "deleted during the capture"), (moved, "changed leaders during the capture")):
        if names:
            remarks.append(f"{named(names)}: {what}; as they were at its beginning")
    return remarks
