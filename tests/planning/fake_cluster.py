"""A controller and its brokers as far as a plan's execution sees them, and a process that may die anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tierfetch.planning.cluster_state import ClusterState, PartitionState, Placement
from tierfetch.planning.directories import DirectoryMove
from tierfetch.planning.execution import (
    Action,
    ElectLeaders,
    Finish,
    MoveDirectories,
    Note,
    Reassign,
    Roll,
    SetConfigs,
    TakeBack,
    Wait,
    next_step,
)
from tierfetch.planning.journal import ConfigValue, Entry, Event, Header, Journal, Key, line_of, parse_journal
from tierfetch.planning.plan_file import Roll as RollOfPlan
from tierfetch.planning.throttling import config_keys

STEPS_MAX = 400
HOME = "/a"
T = "id-of-t"


class Crash(Exception):
    """The process that carries the plan out is gone."""


def entry(partition: int, before: tuple[int, ...], target: tuple[int, ...], wave: int = 0, **fields: object) -> Entry:
    final = fields.pop("final", target)
    return Entry.model_validate(
        {
            "topic": "t",
            "partition": partition,
            "before": before,
            "target": target,
            "final": final,
            "wave": wave,
            **fields,
        }
    )


@dataclass
class FakeCluster:
    """KIP-455 as the controller does it; `advance` lets replicas that are being added arrive."""

    partitions: dict[Key, PartitionState]
    live: set[int]
    configs: dict[tuple[str, str, str], str] = field(default_factory=dict)
    refusals: dict[Key, str] = field(default_factory=dict)
    uploaded: dict[Key, int] = field(default_factory=dict)
    others: dict[Key, frozenset[int]] = field(default_factory=dict)
    """Moves of somebody else, with their brokers."""
    placements: dict[tuple[Key, int], Placement] = field(default_factory=dict)
    """Where replicas are; `HOME` where nothing is said."""
    preferred: dict[tuple[Key, int], str] = field(default_factory=dict)
    """Where brokers will create replicas that they do not have yet."""
    bad_directories: set[str] = field(default_factory=set)
    directory_requests: int = 0
    thin: set[int] = field(default_factory=set)
    """Brokers that may not be elected yet."""
    most_moving: int = 0
    throttled_moves: int = 0

    @classmethod
    def of(cls, entries: list[Entry], live: set[int] | None = None) -> FakeCluster:
        partitions = {each.key: PartitionState(T, each.before, each.before, each.before[0]) for each in entries}
        brokers = {broker for each in entries for broker in (*each.before, *each.target)}
        return cls(partitions, brokers if live is None else live)

    def state(self) -> ClusterState:
        under_way = {key: frozenset(part.replicas) for key, part in self.partitions.items() if part.is_reassigning}
        return ClusterState(
            frozenset(self.live),
            dict(self.partitions),
            dict(self.uploaded),
            under_way=under_way | self.others,
            placements={
                (key, broker): self.placement(key, broker)
                for key, part in self.partitions.items()
                for broker in part.replicas
                if broker in self.live
            },
        )

    def placement(self, key: Key, broker: int) -> Placement:
        return self.placements.get((key, broker), Placement(HOME))

    def move_directory(self, move: DirectoryMove) -> str | None:
        """AlterReplicaLogDirs as a broker has it: a replica that it does not have is created there once it comes."""
        self.directory_requests += 1
        if move.path in self.bad_directories:
            return f"no {move.path}"
        if move.broker not in self.live:
            return None
        if move.broker not in self.partitions[move.key].replicas:
            self.preferred[move.key, move.broker] = move.path
            return None
        now = self.placement(move.key, move.broker).directory
        self.placements[move.key, move.broker] = Placement(now, None if move.path == now else move.path)
        return None

    def reassign(self, key: Key, target: tuple[int, ...]) -> str | None:
        if key in self.refusals:
            return self.refusals[key]
        before = self.partitions[key]
        original = [broker for broker in before.replicas if broker not in before.adding]
        adding = tuple(broker for broker in target if broker not in original)
        removing = tuple(broker for broker in original if broker not in target)
        isr = tuple(broker for broker in before.isr if broker in (*target, *removing))
        self.partitions[key] = replace(before, replicas=(*target, *removing), adding=adding, removing=removing, isr=isr)
        if not adding:
            self._complete(key)
        self.most_moving = max(self.most_moving, sum(part.is_reassigning for part in self.partitions.values()))
        return None

    def take_back(self, key: Key) -> None:
        before = self.partitions[key]
        if before.is_reassigning:
            kept = tuple(broker for broker in before.replicas if broker not in before.adding)
            isr = tuple(broker for broker in before.isr if broker in kept)
            self.partitions[key] = replace(before, replicas=kept, isr=isr, adding=(), removing=())

    def advance(self) -> None:
        """Every replica that is being added joins, and every future log takes its place, if its broker is alive."""
        for (key, broker), found in self.placements.items():
            if found.future is not None and broker in self.live:
                self.placements[key, broker] = Placement(found.future)
        for key, part in self.partitions.items():
            if part.is_reassigning and set(part.adding) <= self.live:
                if any(f"{key[1]}:" in text for (_, _, name), text in self.configs.items() if "replicas" in name):
                    self.throttled_moves += 1
                self._complete(key)

    def _complete(self, key: Key) -> None:
        part = self.partitions[key]
        left = part.toward
        for broker in part.adding:
            self.placements[key, broker] = Placement(self.preferred.pop((key, broker), HOME))
        leader = part.leader if part.leader in left or part.leader < 0 else left[0]
        self.partitions[key] = replace(part, replicas=left, isr=left, leader=leader, adding=(), removing=())

    def elect(self, key: Key) -> None:
        part = self.partitions[key]
        if part.replicas[0] in self.live - self.thin:
            self.partitions[key] = replace(part, leader=part.replicas[0])

    def set_config(self, kind: str, name: str, key: str, value: str | None) -> None:
        if value is None:
            self.configs.pop((kind, name, key), None)
        else:
            self.configs[kind, name, key] = value


@dataclass
class Run:
    """The journal on its disk, and processes that carry the plan out one after another."""

    cluster: FakeCluster
    entries: list[Entry]
    throttle: int | None = 1_000_000
    roll: RollOfPlan | None = None
    shares_brokers: bool = False
    now_ms: int = 0
    data: bytes = b""
    waits: list[str] = field(default_factory=list)
    effects_left: int = 10**9
    """Until the process dies."""

    def __post_init__(self) -> None:
        brokers = sorted({broker for each in self.entries for broker in (*each.before, *each.target)})
        topics = sorted({each.topic for each in self.entries})
        keys = config_keys(topics, brokers, self.entries)
        old = [
            {"kind": kind, "name": name, "key": key, "value": self.cluster.configs.get((kind, name, key))}
            for kind, name, names in keys
            for key in names
        ]
        header = Header.model_validate(
            {
                "cluster_id": "c",
                "plan": "plan.json",
                "created_at_ms": 0,
                "topic_ids": dict.fromkeys(topics, T),
                "entries": self.entries,
                "throttle_bytes_per_s": self.throttle,
                "roll": self.roll,
                "warm_wait_s": 60,
                "old_configs": old if self.throttle or self.roll else [],
                "shares_brokers": self.shares_brokers,
            }
        )
        self.data = line_of(header)

    @property
    def journal(self) -> Journal:
        return parse_journal(self.data, "journal")

    def ask(self, event: str, **fields: object) -> None:
        self.data += line_of(Event.model_validate({"event": event, "at_ms": self.now_ms, **fields}))

    def process(self, *, ask_at: tuple[int, str] | None = None) -> Finish:
        """From its start to its end. Crash."""
        self._note(Event(event="started", at_ms=self.now_ms))
        for step in range(STEPS_MAX):
            if ask_at is not None and ask_at[0] == step:
                self.ask(ask_at[1])
            if (last := self.step()) is not None:
                return last
        raise AssertionError(f"no end after {STEPS_MAX} steps: {self.waits[-3:]}")

    def step(self) -> Finish | None:
        """One look at the cluster, and what follows from it; the end, once it is there."""
        actions = next_step(self.journal, self.cluster.state(), self.now_ms)
        if not all(self._do(action) for action in actions):
            return None
        last = actions[-1]
        assert isinstance(last, Wait | Finish), actions
        if isinstance(last, Finish):
            self._note(Event(event="ended", at_ms=self.now_ms, outcome=last.outcome))
            return last
        self.waits.append(last.why)
        self.now_ms += 1000 + int(last.at_least_s * 1000)
        self.cluster.advance()
        return None

    def _effect(self) -> None:
        if self.effects_left == 0:
            raise Crash
        self.effects_left -= 1

    def _note(self, event: Event) -> None:
        self._effect()
        self.data += line_of(event)

    def _do(self, action: Action) -> bool:
        match action:
            case Note(event):
                self._note(event)
            case SetConfigs(values):
                self._set(values)
            case Roll(values):
                ends = tuple((*each.key, 100) for each in self.entries)
                self._set(values)
                self._note(Event(event="rolled", at_ms=self.now_ms, ends=ends))
            case MoveDirectories(moves, wave):
                self._effect()
                found = [self.cluster.move_directory(move) for move in moves]
                if refused := tuple(text for text in found if text is not None):
                    self._note(Event(event="refused", at_ms=self.now_ms, wave=wave, problems=refused))
                    return False
            case Reassign(replicas, wave):
                self._effect()
                found = [self.cluster.reassign(key, target) for key, target in replicas]
                if refused := tuple(text for text in found if text is not None):
                    self._note(Event(event="refused", at_ms=self.now_ms, wave=wave, problems=refused))
                    return False
            case TakeBack(keys) | ElectLeaders(keys):
                self._effect()
                for key in keys:
                    (self.cluster.take_back if isinstance(action, TakeBack) else self.cluster.elect)(key)
        return True

    def _set(self, values: Iterable[ConfigValue]) -> None:
        for each in values:
            self._effect()
            self.cluster.set_config(each.kind, each.name, each.key, each.value)
