"""Makes the faults of a schedule happen in a world, and undoes them.

What a fault does while it lasts follows from the set of those that are active, so that overlapping ones need no order:
a link is blocked while any active fault blocks it, a node is down while any keeps it down. A fault that cannot happen
(a crash of a node that is down) is skipped, and counted as such.

| family                       | how                                                                                 |
|------------------------------|-------------------------------------------------------------------------------------|
| crashes, wipes, pauses       | at once; a keeper for each node starts it again when nothing keeps it down          |
| links, clocks, disks, store  | settings of the world, set again after each begin and end                           |
| who leads, who votes, joins  | asked when the fault begins, or given while it lasts (`Nodes`, `on`, `joins`)        |
| requests to the cluster      | made by the scenario (`immediate_faults`); without one for its kind, skipped        |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Protocol, TypeVar

from ...broker import StartError
from ...protocol import ErrorCode, KafkaError
from ...quorum import QuorumStartError
from ..judges.core.events import (
    DiskWiped,
    FaultEvent,
    FaultsChanged,
    FilesChanged,
    LeaderElected,
    MachinesCrashed,
    NodeCrashing,
    Observed,
    PagesGivenUp,
    ProcessEnded,
    QuorumLeaderElected,
    VoteCast,
)
from ..machine.filesystem import LOG_DIRECTORIES
from ..machine.host import CrashKind, ProcessDiedError
from ..machine.link import JITTER_S, LATENCY_S
from ..machine.world import World
from .schedule import AT_ONCE, OF_LEADER, OF_LINKS, STORE_KINDS, Fault, FaultKind, Schedule, UnfitScheduleError
from .settings import corrupt, log_directory, set_machine, set_store

T = TypeVar("T")

DOWN_KINDS = frozenset(
    {
        FaultKind.PROCESS_CRASH,
        FaultKind.MACHINE_CRASH,
        FaultKind.POWER_FAILURE,
        FaultKind.WIPE,
        FaultKind.DIRECTORY_LOST,
    }
)
OVERTAKING = frozenset({FaultKind.REORDERING, FaultKind.CRASH_VOTER})
CORRUPTING = frozenset({FaultKind.BIT_ROT, FaultKind.ROTTEN_DOWNLOADS})
CLOCK_KINDS = frozenset({FaultKind.CLOCK_JUMP, FaultKind.CLOCK_DRIFT})
ELSEWHERE = (
    AT_ONCE
    | STORE_KINDS
    | {
        FaultKind.CLOCK_JUMP,
        FaultKind.CLOCK_DRIFT,
        FaultKind.ROTTEN_DOWNLOADS,
        FaultKind.LATE_LISTINGS,
        FaultKind.SLOW_STORE,
        FaultKind.THROTTLED_STORE,
        FaultKind.HALF_ANSWERS,
        FaultKind.NO_BUCKET,
    }
)
"""The kinds that delay no node's answers: those of wall clocks and of the store, and requests."""
CORRUPTION_LINGERS_S = 5.0
"""What was read while it lasted may be on its way, or asked for again."""
RESTART_RETRY_S = 0.5
MOMENT_S = (0.003, 0.03)
"""Between a vote, or a victory, and what it brings about: its messages are on their way, or have just arrived."""
CUT_S = (0.3, 1.5)
LATE_S = (0.1, 1.0)
"""How late a vote is: about as long as a candidate waits for it."""
RELIEF_S = (0.05, 0.6)
"""Between a victory and the next election: for a few records."""
DEPOSED_S = (1.0, 4.0)
DEPOSED_SHARE = 0.7
UNTIL_MISSED_S = (0.1, 0.4)
"""A leader that is back sooner was not missed."""
JOINER_DOWN_S = 0.3
"""Longer than what asked for it is held up."""
START_FAILURES = (OSError, StartError, QuorumStartError, ProcessDiedError)


class Nodes(Protocol):
    """What the injector has to know, and have done, about the nodes."""

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        """Whether the disk, or that directory, holds no last in-sync copy: to lose that is no test of the software."""

    def move_leaders(self) -> None: ...

    def quorum_leader(self) -> str | None:
        """The host that leads the quorum now."""


class FaultInjector:
    """Runs one schedule against `nodes`, each of which `start` brings up."""

    def __init__(
        self,
        world: World,
        nodes: Mapping[str, Callable[[], Awaitable[None]]],
        everyone: Sequence[str],
        cluster: Nodes,
        publish: Callable[[FaultEvent], None],
    ) -> None:
        self.injected: Counter[str] = Counter()
        self.immediate_faults: dict[FaultKind, Callable[[Fault], None]] = {
            FaultKind.MOVE_LEADER: lambda _: cluster.move_leaders()
        }
        """What is done at once when a fault of that kind begins."""
        self._world = world
        self._starts = nodes
        self._everyone = sorted(everyone)
        self._cluster = cluster
        self._publish = publish
        self._active: dict[int, Fault] = {}
        """The faults that last now, by their place in the schedule."""
        self._down: Counter[str] = Counter()
        self._cut: Counter[str] = Counter()
        self._silent: Counter[str] = Counter()
        self._deposed: Counter[str] = Counter()
        """How often a host is cut off by what has just happened, or no replica receives from it, or only clients reach
        it.
        """
        self._late: Counter[tuple[str, str]] = Counter()
        """From voters to their candidates."""
        self._relieved: str | None = None
        self._corrupt_until_s = 0.0
        self._rng = world.rng("injector")
        for name in self._starts:
            faults = world.host(name).disk_faults
            faults.on_pages_given_up = partial(publish, PagesGivenUp(name))
            faults.on_pages_lost = partial(publish, FilesChanged(name))
        self._begins: Mapping[FaultKind, Callable[[Fault], None]] = {
            FaultKind.PROCESS_CRASH: lambda fault: self._crash(fault.targets, "process"),
            FaultKind.MACHINE_CRASH: lambda fault: self._crash(fault.targets, "machine"),
            FaultKind.POWER_FAILURE: lambda fault: self._crash(fault.targets, "machine"),
            FaultKind.WIPE: lambda fault: self._wipe(fault.targets[0]),
            FaultKind.PAUSE: lambda fault: world.host(fault.targets[0]).pause(),
            FaultKind.CRASH_VOTER: self._lose_voters,
            FaultKind.RELIEVE_LEADERS: lambda fault: self._relieve(fault.targets[0]),
            FaultKind.DISCONNECT: self._disconnect,
            FaultKind.REFUSED: self._disconnect,
            FaultKind.RESETS: self._reset_connections,
            FaultKind.HUNG_DISK: self._hang,
            FaultKind.DIRECTORY_HANGS: self._hang_directory,
            FaultKind.DIRECTORY_LOST: self._lose_directory,
            FaultKind.BIT_ROT: self._corrupt,
            **dict.fromkeys(AT_ONCE, lambda fault: self.immediate_faults[fault.kind](fault)),
        }
        """How those begin that are more than a setting."""

    def check(self, schedule: Schedule) -> None:
        """UnfitScheduleError names the faults that cannot happen here: they would be skipped silently."""
        unfit = [str(fault) for fault in schedule.faults if not self._fits(fault)]
        if unfit:
            raise UnfitScheduleError(f"the nodes are {sorted(self._starts)}, which know nothing of {unfit}")

    def _fits(self, fault: Fault) -> bool:
        known = self._everyone if fault.kind in OF_LINKS else self._starts
        return set(fault.targets) <= set(known) and (fault.kind not in AT_ONCE or fault.kind in self.immediate_faults)

    async def run(self, schedule: Schedule) -> None:
        """From the schedule's beginning to the end of its safety phase, when everything is undone."""
        began_s = self._world.now_s
        moments = [(fault.at_ms, 1, index, fault) for index, fault in enumerate(schedule.faults)]
        moments += [(fault.end_ms, 0, index, fault) for index, fault in enumerate(schedule.faults)]
        for at_ms, is_begin, index, fault in sorted(moments, key=lambda moment: moment[:3]):
            await asyncio.sleep(max(0.0, began_s + at_ms / 1000 - self._world.now_s))
            if is_begin:
                self._begin(index, fault)
            else:
                self._end(index)
            self._publish(FaultsChanged())
        await asyncio.sleep(max(0.0, began_s + schedule.safety_ms / 1000 - self._world.now_s))

    async def keep(self, name: str, *, rests: bool = False) -> None:
        """Start the node whenever nothing keeps it down; forever. Look for that all the time, or with `rests` only
        while it is down: seconds in which nothing happens cost less, and the seed draws other things.
        """
        host = self._world.host(name)
        while True:
            if not host.is_up and not self._down[name]:
                if host.files.evict(self._rng) or host.files.is_corrupt:
                    self._publish(FilesChanged(name))
                try:
                    await self._starts[name]()
                except START_FAILURES as error:
                    self._world.record(name, f"cannot start: {error}")
                except KafkaError as error:
                    if error.code is not ErrorCode.kafka_storage_error:
                        raise
                    self._world.record(name, f"cannot start: {error}")
            if rests:
                await host.until_down()
            await asyncio.sleep(RESTART_RETRY_S * self._rng.uniform(0.2, 1.0))

    def exchange_disk(self, name: str) -> None:
        """The node is down, and its disk is empty."""
        self._wipe(name)

    def exchange_disk_soon(self, name: str) -> None:
        """The same, right after this event: for who asks from inside of a process."""
        self._world.loop.call_soon(self._wipe, name, context=self._world.network.context)

    def may_be_corrupt(self) -> bool:
        """Whether what is read may be damaged by a fault that lasts, or has just ended."""
        return self._world.now_s < self._corrupt_until_s

    def may_give_wrong_bytes(self) -> bool:
        """Whether readers may be given wrong bytes that no checksum covers, such as a leader epoch: while anything may
        be corrupt, and once a download has rotted, for a broker keeps it in memory for as long as it is read.
        """
        return self.may_be_corrupt() or self._world.counters["rotten download"] > 0

    def was_damaged(self) -> bool:
        """Whether anything was ever corrupted, on a disk or on its way from the store, or cut short there."""
        counters = self._world.counters
        return self.injected[FaultKind.BIT_ROT] > 0 or any(
            counters[kind] for kind in ("rotten download", "half answer")
        )

    def may_lose_logs(self, host: str) -> bool:
        """Whether anything has ever kept a broker there from a log: a call that failed, a full disk, corruption."""
        kinds = FaultKind.FULL_DISK, FaultKind.DIRECTORY_FILLS, FaultKind.BIT_ROT
        has_failed = not self._world.host(host).disk_faults.failed_at_s.keys().isdisjoint(LOG_DIRECTORIES)
        return has_failed or any(self.injected[kind] > 0 for kind in kinds)

    @property
    def active(self) -> list[Fault]:
        """The faults that last now."""
        return list(self._active.values())

    def is_troubled(self) -> bool:
        """Whether any fault lasts, or may be felt still, but for wall clocks that are wrong."""
        lasting = {fault.kind for fault in self.active} - AT_ONCE - CLOCK_KINDS
        has_after_effects = self.may_be_corrupt() or self._world.store.has_late_uploads
        return bool(lasting or self.troubled) or has_after_effects

    @property
    def troubled(self) -> frozenset[str]:
        """The hosts whose messages, or whose work, a fault may delay now: no host that it does not touch."""
        touched = {host for host, count in self._down.items() if count > 0}
        touched |= (+self._cut).keys() | (+self._silent).keys() | (+self._deposed).keys()
        touched |= {host for pair in +self._late for host in pair}
        for fault in self.active:
            if fault.kind not in ELSEWHERE:
                touched.update(fault.targets or self._everyone)
        return frozenset(touched)

    def on(self, event: Observed) -> None:
        """Some faults strike when something has just happened."""
        match event:
            case VoteCast(host, candidate):
                self._has_voted(host, candidate)
            case QuorumLeaderElected(host):
                self._has_won(host)
            case LeaderElected(host):
                self._leads(host)

    def _has_voted(self, host: str, candidate: str) -> None:
        """A node has voted for another one."""
        if self._lasts(FaultKind.CRASH_VOTER):
            self._cut_off(candidate, self._silent)
            self._in_a_moment(self._crash_voter, host)
        if self._lasts(FaultKind.LATE_VOTES):
            self.injected["late votes, votes"] += 1
            self._hold(self._late, (host, candidate), LATE_S)

    def _has_won(self, host: str) -> None:
        """A node begins to lead the quorum."""
        if self._lasts(FaultKind.CUT_NEW_LEADERS):
            self._in_a_moment(self._cut_off, host, self._cut)
        if self._lasts(FaultKind.RELIEVE_LEADERS):
            self._world.loop.call_later(self._rng.uniform(*RELIEF_S), self._relieve, host)

    def _leads(self, host: str) -> None:
        """A node begins to lead a partition. One is deposed at a time, or no leader would be left."""
        if self._lasts(FaultKind.DEPOSE_LEADERS) and not +self._deposed and self._rng.random() < DEPOSED_SHARE:
            self.injected["depose leaders, cut off"] += 1
            self._world.record("faults", f"only clients reach {host} for a while")
            if self._rng.random() < 0.5:
                self._hold(self._deposed, host, DEPOSED_S)
            else:
                self._in_a_moment(self._hold, self._deposed, host, DEPOSED_S)

    def joins(self, host: str) -> float:
        """A leader asks for a replica on this host in its ISR: for how long that is held up."""
        held_ms = max((fault.value for fault in self.active if fault.kind is FaultKind.CRASH_JOINER), default=0.0)
        if not held_ms or not self._world.host(host).is_up:
            return 0.0
        loop, kernel = self._world.loop, self._world.network.context
        self._down[host] += 1
        loop.call_soon(self._crash_joiner, host, context=kernel)
        loop.call_later(held_ms / 1000 + JOINER_DOWN_S, self._down.subtract, (host,), context=kernel)
        return held_ms / 1000

    def _crash_joiner(self, host: str) -> None:
        if self._world.host(host).is_up:
            self.injected["crash joiner, crashes"] += 1
            self._crash((host,), "process")

    def _lasts(self, kind: FaultKind) -> bool:
        return any(fault.kind is kind for fault in self._active.values())

    def _in_a_moment(self, strike: Callable[..., None], *arguments: object) -> None:
        self._world.loop.call_later(self._rng.uniform(*MOMENT_S), strike, *arguments)

    def _crash_voter(self, host: str) -> None:
        if self._world.host(host).is_up:
            self.injected["crash voter, crashes"] += 1
            self._crash((host,), self._rng.choice(("process", "machine")))

    def _cut_off(self, host: str, how: Counter[str]) -> None:
        self.injected["cut off"] += 1
        self._world.record("faults", f"{host} is {'silent' if how is self._silent else 'cut off'} for a while")
        self._hold(how, host, CUT_S)

    def _hold(self, held: Counter[T], what: T, for_s: tuple[float, float]) -> None:
        held[what] += 1
        self._set_links()
        self._world.loop.call_later(self._rng.uniform(*for_s), self._release, held, what)

    def _release(self, held: Counter[T], what: T) -> None:
        held[what] -= 1
        self._set_links()

    def _relieve(self, host: str) -> None:
        """Cut it off, and reconnect the one before it."""
        if self._lasts(FaultKind.RELIEVE_LEADERS):
            self.injected["relieve leaders, cut off"] += 1
            self._world.record("faults", f"{host} is cut off, {self._relieved} is back")
            self._relieved = host
            self._set_links()

    # -- begin and end ------------------------------------------------------------------------------------------------

    def _begin(self, index: int, fault: Fault) -> None:
        if fault.kind in OF_LEADER:
            leader = self._cluster.quorum_leader()
            fault = replace(fault, targets=() if leader is None else (leader,))
        if not self._can_happen(fault):
            self.injected[f"{fault.kind}, skipped"] += 1
            return
        self.injected[str(fault.kind)] += 1
        self._world.record("faults", f"begin {fault}")
        self._active[index] = fault
        if fault.kind in CORRUPTING:
            until_s = self._world.now_s + fault.duration_ms / 1000 + CORRUPTION_LINGERS_S
            self._corrupt_until_s = max(self._corrupt_until_s, until_s)
        self._down.update(fault.targets if fault.kind in DOWN_KINDS else ())
        begin = self._begins.get(fault.kind)
        if begin is not None:
            begin(fault)
        else:
            self._apply_settings()

    def _lose_voters(self, fault: Fault) -> None:
        self._set_links()
        self._crash(fault.targets, "process")
        self._down.update(fault.targets)
        self._world.loop.call_later(self._rng.uniform(*UNTIL_MISSED_S), self._down.subtract, fault.targets)

    def _disconnect(self, fault: Fault) -> None:
        self._world.network.reset_connections(fault.targets[0])
        self._set_links()

    def _reset_connections(self, fault: Fault) -> None:
        """Reset one after the other, for as long as the fault lasts."""
        if fault in self._active.values():
            self._world.network.reset_one_end(fault.targets[0], self._rng)
            self._world.loop.call_later(self._rng.expovariate(fault.value), self._reset_connections, fault)

    def _hang(self, fault: Fault) -> None:
        faults = self._world.host(fault.targets[0]).disk_faults
        faults.hung_until_s = max(faults.hung_until_s, self._world.now_s + fault.duration_ms / 1000)

    def _hang_directory(self, fault: Fault) -> None:
        until_s = self._world.host(fault.targets[0]).disk_faults.hung_directories_until_s
        directory = log_directory(fault.value)
        until_s[directory] = max(until_s.get(directory, 0.0), self._world.now_s + fault.duration_ms / 1000)

    def _lose_directory(self, fault: Fault) -> None:
        name, directory = fault.targets[0], log_directory(fault.value)
        self._crash((name,), "process")
        self._publish(DiskWiped(name, directory))
        self._world.host(name).wipe(directory)

    def _corrupt(self, fault: Fault) -> None:
        places = corrupt(self._world.host(fault.targets[0]), self._rng)
        self.injected["bit rot, bits"] += len(places)
        self._world.record(fault.targets[0], f"rots: {', '.join(places) or 'nothing'}")

    def _end(self, index: int) -> None:
        fault = self._active.pop(index, None)
        if fault is None or fault.kind in AT_ONCE:
            return
        self._world.record("faults", f"end   {fault.kind} {','.join(fault.targets)}")
        if fault.kind in DOWN_KINDS:
            self._down.subtract(fault.targets)
        elif fault.kind is FaultKind.PAUSE:
            host = self._world.host(fault.targets[0])
            if host.is_paused and not self._is_active(FaultKind.PAUSE, fault.targets[0]):
                host.resume()
        else:
            self._apply_settings()

    def _can_happen(self, fault: Fault) -> bool:
        """One that needs a running node has one."""
        if fault.kind in OF_LEADER and not fault.targets:
            return False
        if fault.kind in AT_ONCE:
            return fault.kind in self.immediate_faults
        if fault.kind is FaultKind.WIPE and not self._cluster.may_wipe(fault.targets[0]):
            return False
        if fault.kind is FaultKind.DIRECTORY_LOST and not self._may_lose_directory(fault):
            return False
        if fault.kind in DOWN_KINDS - {FaultKind.POWER_FAILURE}:
            return self._world.host(fault.targets[0]).is_up
        if fault.kind is FaultKind.PAUSE:
            host = self._world.host(fault.targets[0])
            return host.is_up and not host.is_paused
        return True

    def _may_lose_directory(self, fault: Fault) -> bool:
        host, directory = self._world.host(fault.targets[0]), log_directory(fault.value)
        return host.files.find(directory) is not None and self._cluster.may_wipe(host.name, directory)

    def _crash(self, names: Sequence[str], kind: CrashKind) -> None:
        running = [name for name in names if self._world.host(name).is_up]
        for name in running:
            self._publish(NodeCrashing(name))
        for name in names if kind == "machine" else running:
            self._world.host(name).crash(kind)
        for name in running:
            self._publish(ProcessEnded(name))
        if kind == "machine":
            self._publish(MachinesCrashed(tuple(names)))

    def _wipe(self, name: str) -> None:
        self._crash((name,), "process")
        self._publish(DiskWiped(name))
        self._world.host(name).wipe()

    def _is_active(self, kind: FaultKind, target: str) -> bool:
        return any(fault.kind is kind and target in fault.targets for fault in self.active)

    # -- settings -----------------------------------------------------------------------------------------------------

    def _apply_settings(self) -> None:
        """Set machines and the store as the active faults require."""
        self._set_links()
        active = self.active
        for name in sorted(self._starts):
            set_machine(self._world.host(name), [fault for fault in active if name in fault.targets])
        set_store(self._world.store, active)

    def _set_links(self) -> None:
        network = self._world.network
        blocked = {pair for fault in self.active for pair in self._blocked(fault)}
        blocked |= {pair for host in +self._cut for pair in self._around(host)}
        blocked |= {pair for host in +self._silent for pair in self._around(host) if pair[0] == host}
        if self._lasts(FaultKind.DEPOSE_LEADERS):
            around = [pair for host in +self._deposed for pair in self._around(host)]
            blocked |= {pair for pair in around if self._starts.keys() >= set(pair)}
        if self._lasts(FaultKind.LATE_VOTES):
            blocked |= (+self._late).keys()
        if self._lasts(FaultKind.RELIEVE_LEADERS) and self._relieved is not None:
            blocked |= set(self._around(self._relieved))
        slow = {pair: f.value for f in self.active if f.kind is FaultKind.SLOW_LINK for pair in permutations(f.targets)}
        cut = [fault for fault in self.active if fault.kind is FaultKind.DISCONNECT]
        slow |= {pair: fault.value for fault in cut for pair in self._around(*fault.targets)}
        network.flaky = {fault.targets[0] for fault in cut if not fault.value}
        network.refusing = {fault.targets[0] for fault in self.active if fault.kind is FaultKind.REFUSED}
        jitter_ms = max((f.value for f in self.active if f.kind in OVERTAKING), default=0.0)
        for source, target in permutations(self._everyone, 2):
            if (source, target) in blocked:
                network.block(source, target)
            else:
                network.unblock(source, target)
            link = network.link(source, target)
            link.latency_s = LATENCY_S + slow.get((source, target), 0) / 1000
            link.jitter_s = JITTER_S + jitter_ms / 1000

    def _blocked(self, fault: Fault) -> Iterator[tuple[str, str]]:
        if fault.kind is FaultKind.ONE_WAY:
            yield fault.targets[0], fault.targets[1]
        elif fault.kind in (FaultKind.PARTITION, FaultKind.ISOLATE_LEADER):
            yield from self._around(*fault.targets)

    def _around(self, *side: str) -> Iterator[tuple[str, str]]:
        """All links between these and all others, both ways."""
        for one in side:
            for other in self._everyone:
                if other not in side:
                    yield one, other
                    yield other, one
