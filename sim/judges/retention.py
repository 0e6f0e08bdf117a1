"""Whether retention takes what it may, and nothing else: judged when a log start rises, and when records go from the
tier.

| invariant          | violated when                                                                                  |
|--------------------|------------------------------------------------------------------------------------------------|
| lawful retention   | a leader raises its log start over a record that is younger than `retention.ms` by its clock,  |
|                    | and behind which lie fewer bytes than `retention.bytes`, and that was not deleted              |
| leader's log start | another replica, or one that has just started, has a log start that no leader has had          |
| needed state       | the log of a share coordinator begins after the newest committed snapshot of a share-partition |
| log start first    | an offset goes from the tier, and is nowhere else, that a member of the ISR counts for its log |

Batches are read from the files of the leader and from the store, of its lineage and each offset once; no segment, and
no size or time that metadata states, is asked for. What a leader decided a moment ago it decided by the clock, and the
configuration, of then: all of the last `DECIDED_S` counts. Share coordinators delete what their state no longer needs,
whatever its age: of each share-partition that is not deleted the newest snapshot, and what follows it, is needed. That
what has expired does go is asked once the faults are over (`behind`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from ...broker.cluster import ClusterImage, TopicImage
from ...light_dataclass import dataclass
from ...plugins import LOG_SUFFIX, partition_directory, partition_of
from ...protocol import SHARE_GROUP_STATE_TOPIC, TopicIdPartition
from ...protocol.records import BatchHeader, iter_records
from ..machine.clock import WallClock
from ..machine.filesystem import SimFilesystem
from ..machine.objects import SimObjectStore
from ..machine.store_events import ObjectRemoved
from .core.coverage import CoverageJudge
from .core.events import FaultsChanged, LogStartMoved, MetadataChanged, Observed, RecordsDeleted
from .core.partition import InvariantViolationError, Replicas, ReplicaStatus, epoch_at
from .core.replicas import placed_headers_of

DECIDED_S: Final = 10.0
NO_LIMIT: Final = -1
KIND_BYTES: Final = 2
SNAPSHOT: Final = b"\0\0"
"""The first two bytes of the key of a snapshot; what follows names the share-partition."""
SEGMENTS_LATE: Final = 3
LATE_MS: Final = 8_000
"""What is not closed, copied and looked at yet may be above a limit by so much."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a topic keeps; -1 is no limit."""

    retention_ms: int
    retention_bytes: int

    def breached_by(self, header: BatchHeader, behind_bytes: int, now_ms: int) -> bool:
        """Return whether a batch that so many bytes follow should have been deleted."""
        is_old = self.retention_ms >= 0 and header.max_timestamp <= now_ms - self.retention_ms
        return is_old or 0 <= self.retention_bytes <= behind_bytes


NO_LIMITS: Final = Limits(NO_LIMIT, NO_LIMIT)


class RecentClock:
    """The most that a wall clock showed recently, above what it should. `note` whenever it may have been set."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._before: list[tuple[float, int, float]] = []
        """Until when it was set how: skew and drift."""
        self._set = (clock.skew_ms, clock.drift_ppm)

    def note(self, now_s: float) -> None:
        if self._set != (self._clock.skew_ms, self._clock.drift_ppm):
            self._before = [each for each in self._before if each[0] >= now_s - DECIDED_S]
            self._before.append((now_s, *self._set))
            self._set = (self._clock.skew_ms, self._clock.drift_ppm)

    def latest_ms(self, now_s: float) -> int:
        """Return the latest time of day that a recent decision can have been made with."""
        since_s = now_s - DECIDED_S
        known = [(now_s, *self._set), *(each for each in self._before if each[0] >= since_s)]
        ahead_ms = max(skew_ms + until_s * drift_ppm / 1000 for until_s, skew_ms, drift_ppm in known)
        own_ms = self._set[0] + now_s * self._set[1] / 1000
        return self._clock.now_ms() + int(max(0.0, ahead_ms - own_ms)) + 1


class RetentionJudge:
    """Judges all tiered topics. `hosts` gives each broker's clock and files, in which logs lie in `directory`."""

    def __init__(
        self,
        replicas: Replicas,
        image: Callable[[], ClusterImage],
        store: SimObjectStore,
        coverage: CoverageJudge,
        hosts: Mapping[int, tuple[RecentClock, SimFilesystem]],
        directory: Path,
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._store = store
        self._coverage = coverage
        self._hosts = hosts
        self._directory = directory
        self._starts: dict[TopicIdPartition, int] = {}
        """The highest log start that a leader has had."""
        self._limits_before: dict[UUID, tuple[float, Limits]] = {}
        """Previous limits per topic, and until when they applied."""
        self._deleted: dict[TopicIdPartition, int] = {}
        """The offsets below which an operator has had the records deleted."""
        self.rises = 0
        """How often a leader has raised its log start."""

    def on(self, event: Observed) -> None:
        match event:
            case LogStartMoved(partition, before, now):
                self._begins_at(partition, before, now)
            case MetadataChanged(_, _, before_image, after_image):
                self._changed(before_image, after_image)
            case ObjectRemoved(key):
                self._removed(key)
            case RecordsDeleted(partition, offset):
                self._deleted[partition] = max(offset, self._deleted.get(partition, 0))
            case FaultsChanged():
                self.note_clocks(self._now_s)

    def note_clocks(self, now_s: float) -> None:
        """A clock may have been set."""
        for clock, _ in self._hosts.values():
            clock.note(now_s)

    def highest_start(self, name: TopicIdPartition) -> int:
        """Below it a leader may have deleted everything."""
        return self._starts.get(name, 0)

    def all_segments_of(self, name: TopicIdPartition) -> Iterator[tuple[int, bytes]]:
        """Yield the segments of all replicas, and of the tier."""
        for _, files in self._hosts.values():
            yield from segments_of(name, self._store, files, self._directory)

    def _begins_at(self, name: TopicIdPartition, before: ReplicaStatus | None, now: ReplicaStatus) -> None:
        """InvariantViolationError."""
        highest = self.highest_start(name)
        if now.log_start_offset <= highest:
            return
        if now.leads_epoch is None or before is None:
            detail = f"{name.topic_partition}: that of {now.node_id} is {now.log_start_offset}, leaders had {highest}"
            raise InvariantViolationError("leader's log start", detail)
        self._starts[name] = now.log_start_offset
        if self._image().topic_names.get(name.topic_id) == name.topic:
            self.rises += 1
            if name.topic == SHARE_GROUP_STATE_TOPIC:
                self._check_needed(name, before, now)
            else:
                self._check_lawful(name, before, now)

    def behind(self) -> list[tuple[str, str]]:
        """Return what should have expired by now, or cannot be looked at because there is no leader."""
        found = []
        for topic in self._image().topics.values():
            limits, segment_bytes = _limits(topic), int(topic.configs.get("internal.segment.bytes", 0))
            for number, registration in topic.partitions.items() if limits != NO_LIMITS else ():
                name = topic.id_partition(number)
                now = self._replicas.status(registration.leader, name)
                if now is None or now.leads_epoch != registration.leader_epoch:
                    found.append((str(name.topic_partition), f"nobody leads epoch {registration.leader_epoch}"))
                    continue
                clock, files = self._hosts[now.node_id]
                batches = self._batches(name, now, files)
                behind_bytes = sum(header.size_bytes for header in batches[1:]) - SEGMENTS_LATE * segment_bytes
                now_ms = clock.latest_ms(self._now_s) - LATE_MS
                if batches and limits.breached_by(batches[0], behind_bytes, now_ms):
                    why = f"it starts at {now.log_start_offset}, and has more than {limits}"
                    found.append((str(name.topic_partition), why))
        return found

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """What a topic wanted is remembered for as long as somebody may go by it."""
        for name, topic in before.topics.items():
            now = after.topics.get(name)
            if now is not None and now.topic_id == topic.topic_id and _limits(topic) != _limits(now):
                self._limits_before[topic.topic_id] = (self._now_s, _limits(topic))

    def _check_lawful(self, name: TopicIdPartition, before: ReplicaStatus, now: ReplicaStatus) -> None:
        limits = [_limits(self._image().topics[name.topic])]
        changed_s, old = self._limits_before.get(name.topic_id, (-DECIDED_S, NO_LIMITS))
        limits += [old] if self._now_s - changed_s < DECIDED_S else []
        clock, files = self._hosts[now.node_id]
        now_ms = clock.latest_ms(self._now_s)
        batches = self._batches(name, before, files)
        behind_bytes = sum(header.size_bytes for header in batches)
        for header in batches:
            if header.base_offset >= now.log_start_offset:
                return
            behind_bytes -= header.size_bytes
            if header.base_offset < self._deleted.get(name, 0):
                continue
            if not any(each.breached_by(header, behind_bytes, now_ms) for each in limits):
                where = f"{name.topic_partition}: {now.node_id} begins at {now.log_start_offset}"
                batch = f"the batch at {header.base_offset} is {now_ms - header.max_timestamp} ms old"
                detail = f"{where}, {batch}, {behind_bytes} bytes lie behind it, {limits[0]}"
                raise InvariantViolationError("lawful retention", detail)

    def _check_needed(self, name: TopicIdPartition, before: ReplicaStatus, now: ReplicaStatus) -> None:
        """InvariantViolationError."""
        _, files = self._hosts[now.node_id]
        newest: dict[bytes, int] = {}
        lineage = self._lineage(name, before, files)
        for _, (header, data, position) in sorted(lineage.items()):
            for record in () if header.is_control else iter_records(data, position, header):
                kind, share_partition = (record.key or b"")[:KIND_BYTES], (record.key or b"")[KIND_BYTES:]
                if kind != SNAPSHOT or record.offset >= now.high_watermark:
                    continue
                if record.value is None:
                    newest.pop(share_partition, None)
                else:
                    newest[share_partition] = record.offset
        for share_partition, offset in newest.items():
            if offset < now.log_start_offset:
                where = f"{name.topic_partition}: {now.node_id} begins at {now.log_start_offset}"
                detail = f"{where}, the newest snapshot of {share_partition!r} is at {offset}"
                raise InvariantViolationError("needed state", detail)

    @property
    def _now_s(self) -> float:
        return self._store.network.loop.time()

    def _batches(self, name: TopicIdPartition, before: ReplicaStatus, files: SimFilesystem) -> list[BatchHeader]:
        """Return the batches of its lineage, from its log start on."""
        return [header for _, (header, _, _) in sorted(self._lineage(name, before, files).items())]

    def _lineage(
        self, name: TopicIdPartition, before: ReplicaStatus, files: SimFilesystem
    ) -> dict[int, tuple[BatchHeader, bytes, int]]:
        """Return the same by base offset, each with the bytes that it is in, and where."""
        return {
            header.base_offset: (header, data, position)
            for _, data in segments_of(name, self._store, files, self._directory)
            for position, header in placed_headers_of(data)
            if header.base_offset >= before.log_start_offset
            and header.partition_leader_epoch == epoch_at(before.epochs, header.base_offset)
        }

    def _removed(self, key: str) -> None:
        """An object goes from the store: inside of the broker that has it deleted (`Judges.on_inside`)."""
        directory, _, file_name = key.rpartition("/")
        name = partition_of(directory) if file_name.endswith(f".{LOG_SUFFIX}") else None
        image = self._image()
        if name is None or image.topic_names.get(name.topic_id) != name.topic:
            return
        registration = image.partition(name.topic_partition)
        for member in () if registration is None else registration.isr:
            status = self._replicas.status(member, name)
            if status is None:
                continue
            try:
                self._coverage.begins_at(name, status)
            except InvariantViolationError as violation:
                detail = f"{key} goes, {member} in the ISR of {registration} begins at {status.log_start_offset}"
                raise InvariantViolationError("log start first", f"{detail}: {violation}") from violation


def _limits(topic: TopicImage) -> Limits:
    return Limits(*(int(topic.configs.get(key, NO_LIMIT)) for key in ("retention.ms", "retention.bytes")))


def segments_of(
    name: TopicIdPartition, store: SimObjectStore, files: SimFilesystem, directory: Path
) -> Iterator[tuple[int, bytes]]:
    """Base offset and records of those in the store, and of those in the files."""
    prefix, suffix = f"{partition_directory(name)}/", f".{LOG_SUFFIX}"
    for key, data in store.objects.items():
        if key.startswith(prefix) and key.endswith(suffix):
            yield int(key.removeprefix(prefix).partition("-")[0]), data
    for path, inode in files.walk(files.log_at(directory / str(name.topic_partition))):
        if path.suffix == suffix:
            yield int(path.stem), bytes(inode.content)
