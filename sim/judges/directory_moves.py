"""Whether a replica that is moved between log directories arrives, or stays whole where it was.

| invariant        | violated when                                                                                    |
|------------------|--------------------------------------------------------------------------------------------------|
| asked to move    | the log of a replica is in another log directory than before, which no request named             |
| one log serves   | a broker has two open logs of a partition at a time                                              |
| named and whole  | the cluster has a member of an ISR in a log directory in which its machine holds less than what  |
|                  | is committed: a start makes the copy there the replica                                           |

At the end a replica must be in the directory that was requested last (`anomalies`), unless something has come between:

| what comes between                                            | until                            |
|---------------------------------------------------------------|----------------------------------|
| another request for it, not answered or answered at that time | the process of its broker ends   |
| a refusal, the end of the process, another assignment         | the next request that is granted |

A move that the broker cannot make at once is tried again by itself, so a full disk or a failed call is no excuse. A
directory that goes offline is one: its broker is restarted for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ...broker import Broker
from ...broker.cluster import ClusterImage, PartitionRegistration
from ...light_dataclass import dataclass
from ...log.core import FUTURE_SUFFIX, parse_directory
from ...protocol import TopicIdPartition, TopicPartition
from ..machine.filesystem import LOG_DIRECTORIES, SimFilesystem
from .core.acknowledged_writes import Anomaly
from .core.events import (
    Committed,
    MetadataChanged,
    MomentPassed,
    MoveAnswered,
    MoveRequested,
    NodeStopped,
    Observed,
    ProcessEnded,
    ReplicaMoved,
)
from .core.partition import InvariantViolationError, Replicas
from .durability import DurableLogs
from .final_state import DIRECTORY, directory_id


@dataclass(slots=True)
class _Move:
    """What was requested for one replica. `life` counts the processes of its broker."""

    life: int
    under_way: int = 0
    is_certain: bool = True
    """Whether no two requests of this process overlapped: else it is not known which came last."""
    wanted: Path | None = None
    """Where it must end; None if nothing is demanded."""


class DirectoryMovesJudge:
    """Judges by the cluster's newest image. `nodes` are brokers by host. `end_where_named` returns the end of the log
    that a machine has in the directory in which the image has the replica; None if there is nothing to compare.
    `twice_open` returns the partitions of which a broker has two open logs.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        replicas: Replicas,
        has_lost: Callable[[int, TopicIdPartition], bool],
        end_where_named: Callable[[int, TopicIdPartition], int | None],
        twice_open: Callable[[], Iterable[tuple[int, TopicPartition]]],
        nodes: Mapping[str, int],
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._has_lost = has_lost
        self._end_where_named = end_where_named
        self._twice_open = twice_open
        self._nodes = nodes
        self._lives: Counter[int] = Counter()
        self._moves: dict[tuple[int, TopicIdPartition], _Move] = {}
        self._named: dict[tuple[int, TopicPartition], set[Path]] = {}
        """All directories that were ever requested. A request names a topic, not its id."""

    def on(self, event: Observed) -> None:
        match event:
            case MoveRequested(partition, node_id, directory):
                self._requested(partition, node_id, directory)
            case MoveAnswered(partition, node_id, directory, is_granted):
                self._answered(partition, node_id, directory, is_granted=is_granted)
            case ReplicaMoved(partition, node_id, directory):
                self._moved(partition, node_id, directory)
            case ProcessEnded(host) | NodeStopped(host) if host in self._nodes:
                self._ended(self._nodes[host])
            case Committed(partition):
                self._check(partition, self._registration(partition))
            case MetadataChanged(_, _, before, after):
                self._changed(before, after)
            case MomentPassed():
                for node_id, name in self._twice_open():
                    raise InvariantViolationError("one log serves", f"{name}: broker {node_id} has two open logs")

    def anomalies(self, place: Callable[[int, TopicIdPartition], Path | None]) -> list[Anomaly]:
        """Return the moves that were granted and not made, once everything is at rest. `place` is the log directory of
        a replica, None if it has no log.
        """
        found = []
        for (node_id, name), move in self._moves.items():
            where = place(node_id, name)
            if move.wanted is not None and where not in (None, move.wanted):
                detail = f"broker {node_id} was to move it to {move.wanted}, and has it in {where}"
                found.append(Anomaly("not moved", str(name.topic_partition), detail))
        return found

    def _requested(self, name: TopicIdPartition, node_id: int, directory: Path) -> None:
        life = self._lives[node_id]
        move = self._moves.setdefault((node_id, name), _Move(life))
        if move.life != life:
            move.life, move.under_way, move.is_certain = life, 0, True
        self._named.setdefault((node_id, name.topic_partition), set()).add(directory)
        move.is_certain = move.is_certain and not move.under_way
        move.under_way += 1
        move.wanted = None

    def _answered(self, name: TopicIdPartition, node_id: int, directory: Path, *, is_granted: bool) -> None:
        move = self._moves[node_id, name]
        if move.life != self._lives[node_id]:
            return  # of the process before: it may have come to nothing with that
        move.under_way -= 1
        if is_granted and move.is_certain and self._is_assigned(node_id, name):
            move.wanted = directory

    def _moved(self, name: TopicIdPartition, node_id: int, directory: Path) -> None:
        """InvariantViolationError."""
        if directory not in self._named.get((node_id, name.topic_partition), ()):
            detail = f"{name.topic_partition}: broker {node_id} has moved it to {directory}, which no request has named"
            raise InvariantViolationError("asked to move", detail)

    def _ended(self, node_id: int) -> None:
        self._lives[node_id] += 1
        for (each, _), move in self._moves.items():
            if each == node_id:
                move.wanted = None

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for (node_id, name), move in self._moves.items():
            if not self._is_assigned(node_id, name):
                move.wanted = None
        for topic in after.topics.values():
            old = before.topics.get(topic.name)
            if old is not None and old.partitions is topic.partitions:
                continue
            for number, now in topic.partitions.items():
                then = None if old is None or old.topic_id != topic.topic_id else old.partitions.get(number)
                if then is not now:
                    self._check(topic.id_partition(number), now)

    def _check(self, name: TopicIdPartition, now: PartitionRegistration | None) -> None:
        """InvariantViolationError unless the copy that the cluster counts on has what is committed."""
        committed_end = self._replicas.of(name).committed_end
        for member in () if now is None else now.isr:
            end = None if self._has_lost(member, name) else self._end_where_named(member, name)
            if end is not None and end < committed_end:
                detail = f"{name.topic_partition}: in the directory of {member} in {now} it ends at {end}"
                raise InvariantViolationError("named and whole", f"{detail}, {committed_end} is committed")

    def _registration(self, name: TopicIdPartition) -> PartitionRegistration | None:
        """None if the topic was deleted, or there is another one of that name."""
        image = self._image()
        return image.partition(name.topic_partition) if image.topic_names.get(name.topic_id) == name.topic else None

    def _is_assigned(self, node_id: int, name: TopicIdPartition) -> bool:
        now = self._registration(name)
        return now is not None and node_id in now.replicas


class LogPlaces:
    """The places of all logs; `hosts` by broker id, `files` by host. Brokers with several log directories move them.

    | asked for                | answer                                                                              |
    |--------------------------|-------------------------------------------------------------------------------------|
    | a replica that is hosted | the directory of its log                                                            |
    | one that is not          | what the next start makes its log: the copy, also a future log, in the directory    |
    |                          | that the metadata names, else its log wherever it is                                |
    """

    def __init__(
        self,
        hosts: Mapping[int, str],
        files: Callable[[str], SimFilesystem],
        brokers: Callable[[], Mapping[int, Broker | None]],
        image: Callable[[], ClusterImage],
        disks: DurableLogs,
    ) -> None:
        self._hosts = hosts
        self._files = files
        self._brokers = brokers
        self._image = image
        self._disks = disks

    def log_of(self, node_id: int, name: TopicIdPartition) -> Path:
        """Return the directory of a replica's log, or where it would be."""
        hosted = self._hosted(node_id, name)
        if hosted is not None:
            return hosted
        named = self._named(node_id, name)
        copy = None if named is None else self._copy_in(node_id, name, named)
        return copy or self._files(self._hosts[node_id]).log_at(DIRECTORY / str(name.topic_partition))

    def directory_of(self, node_id: int, name: TopicIdPartition) -> Path | None:
        """Return the log directory of a hosted replica; None of any other."""
        hosted = self._hosted(node_id, name)
        return None if hosted is None else hosted.parent

    def end_where_named(self, node_id: int, name: TopicIdPartition) -> int | None:
        """Return the end of the copy in the directory that the metadata names; None if that is no directory of the
        machine, or has the log itself, or there is no log at all.
        """
        named = self._named(node_id, name)
        log = self.log_of(node_id, name)
        if named is None or log.parent == named:
            return None
        copy = self._copy_in(node_id, name, named)
        host = self._hosts[node_id]
        if copy is not None:
            return self._disks.found_end(host, copy)
        return None if self._files(host).find(log) is None else 0

    def is_in(self, node_id: int, directory: Path, name: TopicIdPartition) -> bool:
        """Return whether a replica is lost with that log directory, or counts as lost."""
        return directory in (self.log_of(node_id, name).parent, self._named(node_id, name))

    def twice_open(self) -> Iterator[tuple[int, TopicPartition]]:
        """Yield brokers with the partitions of which they have two open logs."""
        for node_id, broker in self._brokers().items():
            seen: set[TopicPartition] = set()
            for directory in () if broker is None else broker.logs.directories:
                for name in directory.logs:
                    if name in seen:
                        yield node_id, name
                    seen.add(name)

    def _hosted(self, node_id: int, name: TopicIdPartition) -> Path | None:
        broker = self._brokers().get(node_id)
        hosted = None if broker is None else broker.hosted.partitions.get(name.topic_partition)
        return hosted.log.state.directory if hosted is not None and hosted.partition == name else None

    def _named(self, node_id: int, name: TopicIdPartition) -> Path | None:
        """Return the log directory in which the metadata has the replica, if the machine has it."""
        now = self._image().partition(name.topic_partition)
        named = None if now is None else now.directory_of(node_id)
        files = self._files(self._hosts[node_id])
        return next((each for each in LOG_DIRECTORIES if named and directory_id(files, each) == named), None)

    def _copy_in(self, node_id: int, name: TopicIdPartition, directory: Path) -> Path | None:
        """Return the replica's log in this log directory, else its future log there, else None."""
        files = self._files(self._hosts[node_id])
        live = directory / str(name.topic_partition)
        if files.find(live) is not None:
            return live
        for entry in files.entries(directory):
            parsed = parse_directory(entry.name)
            if parsed is not None and (parsed.topic_partition, parsed.marker) == (name.topic_partition, FUTURE_SUFFIX):
                return directory / entry.name
        return None
