"""Schedules: what goes wrong, when, for how long; and what operators do (`actions`). Data: generated from a seed,
stored, shortened, replayed.

A run has a safety phase, during which the faults of its schedule begin and end, and a liveness phase, in which nothing
fails any longer and everything must converge. Each fault ends by itself; at the end of the safety phase all are over.

| kind            | targets         | value                  | while it lasts                                         |
|-----------------|-----------------|------------------------|--------------------------------------------------------|
| process crash   | node            | -                      | down; what was written stays in the page cache         |
| machine crash   | node            | -                      | down; what was not fsynced is lost, the rest torn      |
| power failure   | all nodes       | -                      | all machines crash at once; they return one by one     |
| wipe            | node            | -                      | down; its disk is replaced by an empty one             |
| pause           | node            | -                      | it does nothing, and knows nothing of it               |
| partition       | one side        | -                      | no packet between these and all others                 |
| one way         | from, to        | -                      | no packet from the first to the second                 |
| slow link       | a, b            | latency, ms            | each packet takes that much longer                     |
| reordering      | -               | latency, ms            | connections overtake each other by up to that          |
| clock jump      | node            | ms, also negative      | its wall clock is that far off, then back              |
| clock drift     | node            | parts per million      | its wall clock runs fast or slow                       |
| store outage    | -               | -                      | every call of the store fails                          |
| store errors    | -               | probability            | calls fail before they had an effect                   |
| lost replies    | -               | probability            | calls had their effect, and fail                       |
| half uploads    | -               | probability            | uploads end in the middle                              |
| hung uploads    | -               | seconds                | uploads take that much longer, and have their effect   |
|                 |                 |                        | even if no caller waits for them any longer            |
| slow disk       | node            | factor                 | each call takes that many times as long                |
| full disk       | node            | -                      | writes fail: no space is left                          |
| move leader     | -               | -                      | at once: another in-sync replica leads each partition  |
| isolate leader  | -               | -                      | no packet to or from who leads the quorum at its start |
| crash voter     | -               | latency, ms            | at its start the quorum's leader crashes; a node that  |
|                 |                 |                        | votes for another crashes a moment later, and nobody   |
|                 |                 |                        | hears that one for a while; both are started at once;  |
|                 |                 |                        | connections overtake each other, so that several stand |
| cut new leaders | -               | -                      | who wins an election is cut off a moment later, for a  |
|                 |                 |                        | while                                                  |
| disconnect      | node            | latency, ms, or 0      | at its start all its connections are reset; then its   |
|                 |                 |                        | packets take that much longer, or connects to it are   |
|                 |                 |                        | refused and taken in turn                              |
| ghost           | broker          | -                      | at once: a process of its past wakes up, and says to   |
|                 |                 |                        | controllers and leaders what it was about to say       |
| crash joiner    | -               | latency, ms            | a replica that its leader asks into the ISR crashes,   |
|                 |                 |                        | and what asked for it is that late                     |
| replace topic   | -               | -                      | at once: a topic is deleted, and created under the     |
|                 |                 |                        | same name                                              |
| move replica    | broker          | -                      | at once: a partition gets a replica there              |
| late votes      | -               | -                      | a node that votes for another is not heard by that one |
|                 |                 |                        | for a while: its vote comes when that may stand again  |
| relieve leaders | -               | -                      | at its start the quorum's leader is cut off; who wins  |
|                 |                 |                        | the election is cut off when it has appended a little, |
|                 |                 |                        | and the one before it comes back                       |
| depose leaders  | -               | -                      | who begins to lead a partition is mostly cut off from  |
|                 |                 |                        | all other nodes, and only clients reach it             |
| disk errors     | node            | probability            | calls that change something fail (EIO)                 |
| failed fsync    | node            | probability            | fsyncs fail, and what they were to write never is      |
| lost pages      | node            | probability            | fsyncs of partitions' logs fail, and what they were to |
|                 |                 |                        | write is gone when the log is opened again, also by    |
|                 |                 |                        | the same process                                       |
| hung disk       | node            | -                      | no call ends that the page cache does not answer       |
| bit rot         | node            | -                      | a bit of a closed segment, or of a snapshot, reads     |
|                 |                 |                        | wrong                                                  |
| directory fails | broker          | number of the directory | every call in it fails that the page cache does not  |
|                 |                 |                        | answer (EIO)                                           |
| directory hangs | broker          | the same               | no call in it ends that the page cache does not answer |
| directory fills | broker          | the same               | writes in it fail: no space is left                    |
| directory lost  | broker          | the same               | down; an empty directory is in its place               |
| move directory  | broker          | -                      | at once: some of its replicas shall be in another log  |
|                 |                 |                        | directory                                              |
| rotten downloads | -              | probability            | a bit of what the store sends is wrong                 |
| open files      | node            | probability            | what opens a file or a directory fails (EMFILE)        |
| late listings   | -               | seconds                | listings do not show what was put or deleted within    |
| resets          | host            | a second               | of its connections so many are reset, each at one end; |
|                 |                 |                        | the other end learns it when it sends something        |
| refused         | node            | -                      | at its start its connections are reset; connects to it |
|                 |                 |                        | are refused though it lives, and reaches others        |
| impostor        | broker          | -                      | another process with its id, and an empty disk, asks   |
|                 |                 |                        | to be registered at its address while it lives         |
| quorum ghost    | -               | -                      | at once: a stranger sends voters each request of the   |
|                 |                 |                        | quorum's, with epochs near 2^31                        |
| slow store      | -               | seconds                | each call takes that much longer                       |
| throttled store | -               | calls a second         | what is above that fails with SlowDown                 |
| half answers    | -               | probability            | what is downloaded ends before its announced size      |
| no bucket       | -               | -                      | every call is refused: the bucket does not exist       |
| restart         | node            | -                      | at once: controlled shutdown, then it is started again |
| delete records  | -               | -                      | at once: of a side topic, up to the middle             |
| min isr         | -               | -                      | at once: `min.insync.replicas` of the main topic moves |
| unregister      | broker          | -                      | at once, while it is down                              |
| quota           | -               | -                      | at once: a quota of the client `throttled` is set      |

Those from `disconnect` on come in scenes only (`scenes`, `log_scenes`, `quorum_scenes`), those from `disk errors` on
by `hardware`, those of directories by `directories`, those from `resets` on by `table`.

Swarm testing (Groce et al.): each seed takes a random subset of the kinds, so that rare combinations become common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from random import Random

from pydantic import TypeAdapter

from ...light_dataclass import dataclass
from ...protocol import OperatorError
from .actions import Action


class FaultKind(StrEnum):
    """The table's first column."""

    PROCESS_CRASH = "process crash"
    MACHINE_CRASH = "machine crash"
    POWER_FAILURE = "power failure"
    WIPE = "wipe"
    PAUSE = "pause"
    PARTITION = "partition"
    ONE_WAY = "one way"
    SLOW_LINK = "slow link"
    REORDERING = "reordering"
    CLOCK_JUMP = "clock jump"
    CLOCK_DRIFT = "clock drift"
    STORE_OUTAGE = "store outage"
    STORE_ERRORS = "store errors"
    LOST_REPLIES = "lost replies"
    HALF_UPLOADS = "half uploads"
    HUNG_UPLOADS = "hung uploads"
    SLOW_DISK = "slow disk"
    FULL_DISK = "full disk"
    MOVE_LEADER = "move leader"
    ISOLATE_LEADER = "isolate leader"
    CRASH_VOTER = "crash voter"
    CUT_NEW_LEADERS = "cut new leaders"
    DISCONNECT = "disconnect"
    GHOST = "ghost"
    CRASH_JOINER = "crash joiner"
    REPLACE_TOPIC = "replace topic"
    MOVE_REPLICA = "move replica"
    LATE_VOTES = "late votes"
    RELIEVE_LEADERS = "relieve leaders"
    DEPOSE_LEADERS = "depose leaders"
    DISK_ERRORS = "disk errors"
    FAILED_FSYNC = "failed fsync"
    LOST_PAGES = "lost pages"
    HUNG_DISK = "hung disk"
    BIT_ROT = "bit rot"
    DIRECTORY_FAILS = "directory fails"
    DIRECTORY_HANGS = "directory hangs"
    DIRECTORY_FILLS = "directory fills"
    DIRECTORY_LOST = "directory lost"
    ROTTEN_DOWNLOADS = "rotten downloads"
    LATE_LISTINGS = "late listings"
    OPEN_FILES = "open files"
    RESETS = "resets"
    REFUSED = "refused"
    IMPOSTOR = "impostor"
    QUORUM_GHOST = "quorum ghost"
    SLOW_STORE = "slow store"
    THROTTLED_STORE = "throttled store"
    HALF_ANSWERS = "half answers"
    NO_BUCKET = "no bucket"
    RESTART = "restart"
    DELETE_RECORDS = "delete records"
    MIN_ISR = "min isr"
    UNREGISTER = "unregister"
    QUOTA = "quota"
    MOVE_DIRECTORY = "move directory"


STORE_KINDS = frozenset(
    {
        FaultKind.STORE_OUTAGE,
        FaultKind.STORE_ERRORS,
        FaultKind.LOST_REPLIES,
        FaultKind.HALF_UPLOADS,
        FaultKind.HUNG_UPLOADS,
    }
)
"""These need a remote store."""

QUORUM_KINDS = frozenset({FaultKind.ISOLATE_LEADER, FaultKind.CRASH_VOTER, FaultKind.CUT_NEW_LEADERS})
"""These need a quorum."""

SCENE_KINDS = frozenset(
    {
        FaultKind.DISCONNECT,
        FaultKind.GHOST,
        FaultKind.CRASH_JOINER,
        FaultKind.REPLACE_TOPIC,
        FaultKind.MOVE_REPLICA,
        FaultKind.LATE_VOTES,
        FaultKind.RELIEVE_LEADERS,
        FaultKind.DEPOSE_LEADERS,
    }
)
"""These come in scenes only."""

HARDWARE_KINDS = frozenset(
    {
        FaultKind.DISK_ERRORS,
        FaultKind.FAILED_FSYNC,
        FaultKind.LOST_PAGES,
        FaultKind.HUNG_DISK,
        FaultKind.BIT_ROT,
        FaultKind.ROTTEN_DOWNLOADS,
        FaultKind.LATE_LISTINGS,
        FaultKind.OPEN_FILES,
    }
)
"""These are drawn by `hardware`."""

DIRECTORY_KINDS = frozenset(
    {
        FaultKind.DIRECTORY_FAILS,
        FaultKind.DIRECTORY_HANGS,
        FaultKind.DIRECTORY_FILLS,
        FaultKind.DIRECTORY_LOST,
    }
)
"""These are drawn by `directories`, where brokers have several log directories."""

TABLE_KINDS = frozenset(
    {
        FaultKind.RESETS,
        FaultKind.REFUSED,
        FaultKind.IMPOSTOR,
        FaultKind.QUORUM_GHOST,
        FaultKind.SLOW_STORE,
        FaultKind.THROTTLED_STORE,
        FaultKind.HALF_ANSWERS,
        FaultKind.NO_BUCKET,
        FaultKind.RESTART,
        FaultKind.DELETE_RECORDS,
        FaultKind.MIN_ISR,
        FaultKind.UNREGISTER,
        FaultKind.QUOTA,
    }
)
"""These are drawn by `table`."""

AT_ONCE = frozenset(
    {
        FaultKind.MOVE_DIRECTORY,
        FaultKind.MOVE_LEADER,
        FaultKind.GHOST,
        FaultKind.REPLACE_TOPIC,
        FaultKind.MOVE_REPLICA,
        FaultKind.QUORUM_GHOST,
        FaultKind.RESTART,
        FaultKind.DELETE_RECORDS,
        FaultKind.MIN_ISR,
        FaultKind.UNREGISTER,
        FaultKind.QUOTA,
        FaultKind.IMPOSTOR,
    }
)
"""These are requests, and over when they are made."""

OF_LEADER = frozenset({FaultKind.ISOLATE_LEADER, FaultKind.CRASH_VOTER, FaultKind.RELIEVE_LEADERS})
"""Whose target is the quorum's leader when they begin."""

ONE_NODE = frozenset(
    {
        FaultKind.PROCESS_CRASH,
        FaultKind.MACHINE_CRASH,
        FaultKind.WIPE,
        FaultKind.PAUSE,
        FaultKind.CLOCK_JUMP,
        FaultKind.CLOCK_DRIFT,
        FaultKind.SLOW_DISK,
        FaultKind.FULL_DISK,
    }
)

_WEIGHTS: Mapping[FaultKind, int] = {
    FaultKind.PROCESS_CRASH: 4,
    FaultKind.MACHINE_CRASH: 4,
    FaultKind.POWER_FAILURE: 1,
    FaultKind.WIPE: 2,
    FaultKind.PAUSE: 3,
    FaultKind.PARTITION: 3,
    FaultKind.ONE_WAY: 2,
    FaultKind.MOVE_LEADER: 3,
    FaultKind.ISOLATE_LEADER: 3,
    FaultKind.CRASH_VOTER: 3,
}
_DURATION_MS: Mapping[FaultKind, tuple[int, int]] = {
    FaultKind.POWER_FAILURE: (300, 4_000),
    FaultKind.REORDERING: (1_000, 10_000),
    FaultKind.SLOW_LINK: (1_000, 10_000),
    FaultKind.CLOCK_DRIFT: (1_000, 20_000),
    FaultKind.MOVE_LEADER: (0, 0),
    FaultKind.ISOLATE_LEADER: (100, 3_000),
    FaultKind.CRASH_VOTER: (500, 3_000),
    FaultKind.CUT_NEW_LEADERS: (2_000, 10_000),
}
_VALUES: Mapping[FaultKind, Sequence[float]] = {
    FaultKind.SLOW_LINK: (20, 100, 400),
    FaultKind.REORDERING: (5, 30, 150),
    FaultKind.CRASH_VOTER: (3, 15),
    FaultKind.CLOCK_JUMP: (-3_600_000, -5_000, 5_000, 3_600_000, 86_400_000),
    FaultKind.CLOCK_DRIFT: (-50_000, -500, 500, 50_000),
    FaultKind.STORE_ERRORS: (0.1, 0.5),
    FaultKind.LOST_REPLIES: (0.1, 0.5),
    FaultKind.HALF_UPLOADS: (0.2, 0.7),
    FaultKind.HUNG_UPLOADS: (0.5, 3, 8),
    FaultKind.SLOW_DISK: (10, 100, 1_000),
}
_DEFAULT_DURATION_MS = (100, 6_000)


OF_LINKS = frozenset({FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.SLOW_LINK, FaultKind.RESETS})
"""These may hit clients, too."""


class UnfitScheduleError(OperatorError, ValueError):
    """Faults that cannot happen in the scenario for which the schedule was given."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the table from `at_ms` for `duration_ms`. `targets` are host names, ordered for `one way`."""

    at_ms: int
    kind: FaultKind
    targets: tuple[str, ...] = ()
    duration_ms: int = 0
    value: float = 0

    @property
    def end_ms(self) -> int:
        return self.at_ms + self.duration_ms

    def __str__(self) -> str:
        targets = f" {','.join(self.targets)}" if self.targets else ""
        value = f" {self.value:g}" if self.value else ""
        return f"{self.at_ms:>7} ms  {self.kind}{targets}{value} for {self.duration_ms} ms"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The faults of one run, by time; all are over when the safety phase is. And its actions, by time."""

    safety_ms: int
    faults: tuple[Fault, ...] = field(default=())
    actions: tuple[Action, ...] = field(default=())

    def __post_init__(self) -> None:
        if not all(0 <= action.at_ms < self.safety_ms for action in self.actions):
            raise ValueError(f"actions outside the safety phase of {self.safety_ms} ms")
        if list(self.actions) != sorted(self.actions, key=lambda action: action.at_ms):
            raise ValueError("actions are not in the order of their times")
        late = [str(fault) for fault in self.faults if fault.end_ms > self.safety_ms or fault.at_ms < 0]
        if late:
            raise ValueError(f"faults outside the safety phase of {self.safety_ms} ms: {late}")
        if list(self.faults) != sorted(self.faults, key=lambda fault: fault.at_ms):
            raise ValueError("faults are not in the order of their times")

    def with_more(self, faults: Sequence[Fault]) -> Schedule:
        """Add these, as far as they are over with the safety phase."""
        over = [fault for fault in faults if fault.end_ms <= self.safety_ms]
        return replace(self, faults=tuple(sorted([*self.faults, *over], key=lambda fault: fault.at_ms)))

    def with_actions(self, actions: Sequence[Action]) -> Schedule:
        """The same faults with these actions."""
        return replace(self, actions=tuple(actions))

    @property
    def kinds(self) -> Counter[str]:
        """How many of each kind."""
        return Counter(str(fault.kind) for fault in self.faults)

    def to_json(self) -> str:
        return _SCHEDULES.dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Schedule:
        """pydantic.ValidationError, a ValueError, names what is wrong."""
        return _SCHEDULES.validate_json(text)


_SCHEDULES = TypeAdapter(Schedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What faults may hit: nodes, of which the disks of `wiped` may be lost; clients, which are only cut off. `kinds`
    are those that may be drawn; None: all that are possible.
    """

    nodes: tuple[str, ...]
    wiped: tuple[str, ...]
    clients: tuple[str, ...] = ()
    has_store: bool = False
    has_quorum: bool = False
    kinds: frozenset[FaultKind] | None = None
    gaps_ms: tuple[int, ...] = (400, 1_000, 3_000)
    """One of these is the mean time between two faults of a seed."""


def generate(rng: Random, targets: Targets, safety_ms: int) -> Schedule:
    """A schedule for these."""
    kinds = _swarm(rng, targets)
    mean_gap_ms = rng.choice(targets.gaps_ms)
    faults: list[Fault] = []
    at_ms = rng.randrange(0, 2 * mean_gap_ms)
    last_loss_ms = -_LOSS_GAP_MS
    while at_ms < safety_ms:
        kind = rng.choices(kinds, [_WEIGHTS.get(each, 1) for each in kinds])[0]
        if kind is not FaultKind.WIPE or at_ms - last_loss_ms >= _LOSS_GAP_MS:
            faults.append(_fault(rng, kind, at_ms, safety_ms, targets))
            last_loss_ms = faults[-1].end_ms if kind is FaultKind.WIPE else last_loss_ms
        at_ms += 1 + int(rng.expovariate(1 / mean_gap_ms))
    return Schedule(safety_ms, tuple(faults))


_LOSS_GAP_MS = 8_000
"""Between the return of a wiped node and the next wipe: to lose every copy by wipes is no test of the software."""


def _swarm(rng: Random, targets: Targets) -> list[FaultKind]:
    refused = SCENE_KINDS | HARDWARE_KINDS | DIRECTORY_KINDS | TABLE_KINDS | {FaultKind.MOVE_DIRECTORY}
    refused |= frozenset() if targets.has_store else STORE_KINDS
    refused |= frozenset() if targets.has_quorum else QUORUM_KINDS
    refused |= frozenset() if targets.wiped else {FaultKind.WIPE}
    possible = [kind for kind in FaultKind if kind not in refused and (targets.kinds is None or kind in targets.kinds)]
    share = rng.choice((0.25, 0.5, 0.8))
    return [kind for kind in possible if rng.random() < share] or [rng.choice(possible)]


def _fault(rng: Random, kind: FaultKind, at_ms: int, safety_ms: int, targets: Targets) -> Fault:
    shortest, longest = _DURATION_MS.get(kind, _DEFAULT_DURATION_MS)
    duration_ms = min(safety_ms - at_ms, rng.randint(shortest, longest))
    value = rng.choice(_VALUES[kind]) if kind in _VALUES else 0
    return Fault(at_ms, kind, _targets(rng, kind, targets), duration_ms, value)


def _targets(rng: Random, kind: FaultKind, targets: Targets) -> tuple[str, ...]:
    nodes, everyone = targets.nodes, [*targets.nodes, *targets.clients]
    if kind in ONE_NODE:
        return (rng.choice(targets.wiped if kind is FaultKind.WIPE else nodes),)
    if kind is FaultKind.POWER_FAILURE:
        return nodes
    if kind is FaultKind.PARTITION:
        side = rng.sample(everyone, rng.randint(1, len(everyone) - 1))
        return tuple(sorted(side))
    if kind in (FaultKind.ONE_WAY, FaultKind.SLOW_LINK):
        return tuple(rng.sample(everyone if rng.random() < 0.3 else nodes, 2))
    return ()
