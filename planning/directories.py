"""In which log directory each replica of a plan shall be, and what to ask of its broker (AlterReplicaLogDirs).

| a replica | asked of its broker |
|---|---|
| is about to come to it | the move, before it is assigned: the broker notes the directory and creates it there |
| is in the directory | nothing |
| has its future log in the directory | nothing; it is waited for |
| is in another directory | the move, again and again until it has begun |
| of a broker that does not say where it is | nothing; it is waited for, by name |
| whose move is taken back | a move to the directory where it is, which is Kafka's way to end one |

Where a replica is, is read off the cluster each time. The directories from before the plan are remembered in its
entries, for the way back.

A plan names directories for replicas that come to a broker with several (`named_evenly`): the largest replica first, to
the directory with the least of its size in use that has room for it. What leaves a broker is not taken into account: no
request says in which directory a replica will have been by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from ..light_dataclass import dataclass
from .cluster_state import ClusterState, Standing, standing
from .journal import Entry, Key


class LogDir(Protocol):
    """`model.LogDir`: a log directory as an inventory has it."""

    @property
    def path(self) -> str: ...

    @property
    def disk_bytes(self) -> float | None: ...

    @property
    def used_bytes(self) -> float: ...


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """The replica of broker `broker` shall be in the log directory of that path."""

    key: Key
    broker: int
    path: str


@dataclass(frozen=True, slots=True)
class Directories:
    """What is left to do of some entries: `to_ask`, and what the broker is about or what is not known: `late`."""

    to_ask: tuple[DirectoryMove, ...]
    late: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        return not self.to_ask and not self.late


@dataclass(frozen=True, slots=True)
class Arrival:
    """A replica that comes to a broker, and what it will hold there."""

    key: Key
    broker: int
    size_bytes: float


def named_evenly(log_dirs: Mapping[int, Sequence[LogDir]], arrivals: Iterable[Arrival]) -> dict[tuple[Key, int], str]:
    """Return the path for each replica that comes to a broker with several log directories."""
    used = {(broker, each.path): each.used_bytes for broker, found in log_dirs.items() for each in found}
    named = {}
    for arrival in sorted(arrivals, key=lambda each: (-each.size_bytes, each.key, each.broker)):
        choices = log_dirs.get(arrival.broker, ())
        if len(choices) < 2:
            continue
        filled = {each.path: used[arrival.broker, each.path] + arrival.size_bytes for each in choices}
        path = _emptiest(choices, filled)
        used[arrival.broker, path] = filled[path]
        named[arrival.key, arrival.broker] = path
    return named


def _emptiest(choices: Sequence[LogDir], filled: Mapping[str, float]) -> str:
    """Return the path of the one that is the least full afterwards; one without room only if none has."""
    sizes = [each.disk_bytes for each in choices if each.disk_bytes is not None]
    usual = max(sizes, default=1.0)  # of unknown size: like the others, so that bytes decide

    def order(each: LogDir) -> tuple[bool, float, str]:
        is_full = each.disk_bytes is not None and filled[each.path] > each.disk_bytes
        return is_full, filled[each.path] / (each.disk_bytes or usual), each.path

    return min(choices, key=order).path


def arriving(entries: Iterable[Entry], state: ClusterState, *, back: bool = False) -> tuple[DirectoryMove, ...]:
    """Return where replicas shall be created that the next reassignment of these entries brings."""
    return tuple(
        DirectoryMove(entry.key, broker, path)
        for entry in entries
        for broker, path in _wanted(entry, back=back)
        if broker in (entry.before if back else entry.target) and broker not in state.partitions[entry.key].replicas
    )


def left_to_do(entries: Iterable[Entry], state: ClusterState, *, back: bool = False) -> Directories:
    """Return what is missing until every replica is in its directory; back: in the one from before the plan."""
    to_ask, late = [], []
    for entry, broker, path in _present(entries, state, back=back):
        found = state.placements.get((entry.key, broker))
        if found is None:
            late.append(f"broker {broker} to say where its replica of {entry.name} is")
        elif found.directory != path or found.future not in (None, path):
            late.append(f"{entry.name} on broker {broker} to be in {path}")
            if path != found.future:
                to_ask.append(DirectoryMove(entry.key, broker, path))
    return Directories(tuple(to_ask), tuple(late))


def to_stop(entries: Iterable[Entry], state: ClusterState) -> tuple[DirectoryMove, ...]:
    """Return the requests that end the plan's own moves between directories where the replicas are now."""
    return tuple(
        DirectoryMove(entry.key, broker, found.directory)
        for entry, broker, path in _present(entries, state)
        if (found := state.placements.get((entry.key, broker))) is not None and found.future == path
    )


def is_complete(entry: Entry, topic_id: str, state: ClusterState) -> bool:
    """Return whether the replicas are at the plan's target, each in its directory."""
    return standing(entry, topic_id, state) is Standing.DONE and left_to_do([entry], state).is_done


def replicas_of(entries: Iterable[Entry]) -> list[tuple[Key, int]]:
    """Return the replicas whose log directories matter to these entries."""
    return [
        (entry.key, broker)
        for entry in entries
        for broker in dict([*entry.directories, *entry.directories_before])
        if entry.directories
    ]


def _wanted(entry: Entry, *, back: bool) -> tuple[tuple[int, str], ...]:
    return entry.directories_before if back else entry.directories


def _present(entries: Iterable[Entry], state: ClusterState, *, back: bool = False) -> Iterator[tuple[Entry, int, str]]:
    """Yield the replicas that are there, with the directory in which each shall be."""
    for entry in entries:
        found = state.partitions.get(entry.key)
        for broker, path in _wanted(entry, back=back):
            if found is not None and broker in found.replicas and broker not in found.removing:
                yield entry, broker, path
