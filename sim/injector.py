"""Makes the faults of a schedule happen in a world, and undoes them.

What a fault does while it lasts follows from the set of those that are active, so that overlapping ones need no order:
a link is blocked while any active fault blocks it, a node is down while any keeps it down. A fault that cannot happen
(a crash of a node that is down) is skipped, and counted as such.

| family                       | how                                                                                 |
|------------------------------|-------------------------------------------------------------------------------------|
| crashes, wipes, pauses       | at once; a keeper for each node starts it again when nothing keeps it down          |
| links, clocks, disks, store  | knobs of the world, set anew after each begin and end                               |
| who leads, who votes         | asked when the fault begins, or told while it lasts (`Leaders`)                     |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Protocol

from ..broker.node import StartError
from ..quorum.errors import QuorumStartError
from .host import CrashKind, ProcessDiedError
from .link import JITTER_S, LATENCY_S
from .schedule import Fault, FaultKind, Schedule
from .world import World

DOWN_KINDS = frozenset({FaultKind.PROCESS_CRASH, FaultKind.MACHINE_CRASH, FaultKind.POWER_FAILURE, FaultKind.WIPE})
RESTART_RETRY_S = 0.5
VOTER_LIVES_S = 0.05
"""At most, after its vote, while voters crash."""
START_FAILURES = (OSError, StartError, QuorumStartError, ProcessDiedError)


class Losses(Protocol):
    """Is told what a node loses, at the instant that it does."""

    def may_wipe(self, host: str) -> bool:
        """Whether the disk holds no last in-sync copy: to lose that is no test of the software."""

    def before_crash(self, host: str) -> None: ...

    def machines_crashed(self, hosts: Sequence[str]) -> None:
        """Their files are now what survived."""

    def wiped(self, host: str) -> None: ...

    def process_ended(self, host: str) -> None: ...


class Leaders(Protocol):
    """What the injector has to know, and have done, about who leads."""

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
        losses: Losses,
        leaders: Leaders,
    ) -> None:
        self.injected: Counter[str] = Counter()
        self.on_fault: Callable[[], None] = lambda: None
        """Called after each begin and end."""
        self._world = world
        self._starts = nodes
        self._everyone = sorted(everyone)
        self._losses = losses
        self._leaders = leaders
        self._active: dict[int, Fault] = {}
        """By their place in the schedule."""
        self._down: Counter[str] = Counter()
        self._rng = world.rng("injector")

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
            self.on_fault()
        await asyncio.sleep(max(0.0, began_s + schedule.safety_ms / 1000 - self._world.now_s))

    async def keep(self, name: str) -> None:
        """Start the node whenever nothing keeps it down; forever."""
        host = self._world.host(name)
        while True:
            if not host.is_up and not self._down[name]:
                try:
                    await self._starts[name]()
                except START_FAILURES as error:
                    self._world.record(name, f"cannot start: {error}")
            await asyncio.sleep(RESTART_RETRY_S * self._rng.uniform(0.2, 1.0))

    @property
    def active(self) -> list[Fault]:
        """Those that last now."""
        return list(self._active.values())

    def has_voted(self, host: str) -> None:
        """A node has voted for another one."""
        if any(fault.kind is FaultKind.CRASH_VOTER for fault in self._active.values()):
            self._world.loop.call_later(VOTER_LIVES_S * self._rng.random(), self._crash_voter, host)

    def _crash_voter(self, host: str) -> None:
        if self._world.host(host).is_up:
            self.injected["crash voter, crashes"] += 1
            self._crash((host,), self._rng.choice(("process", "machine")))

    # -- begin and end ------------------------------------------------------------------------------------------------

    def _begin(self, index: int, fault: Fault) -> None:
        if fault.kind is FaultKind.ISOLATE_LEADER:
            leader = self._leaders.quorum_leader()
            fault = replace(fault, targets=() if leader is None else (leader,))
        if not self._can_happen(fault):
            self.injected[f"{fault.kind}, skipped"] += 1
            return
        self.injected[str(fault.kind)] += 1
        self._world.record("faults", f"begin {fault}")
        self._active[index] = fault
        self._down.update(fault.targets if fault.kind in DOWN_KINDS else ())
        match fault.kind:
            case FaultKind.PROCESS_CRASH:
                self._crash(fault.targets, "process")
            case FaultKind.MACHINE_CRASH | FaultKind.POWER_FAILURE:
                self._crash(fault.targets, "machine")
            case FaultKind.WIPE:
                self._wipe(fault.targets[0])
            case FaultKind.PAUSE:
                self._world.host(fault.targets[0]).pause()
            case FaultKind.MOVE_LEADER:
                self._leaders.move_leaders()
            case _:
                self._set_knobs()

    def _end(self, index: int) -> None:
        fault = self._active.pop(index, None)
        if fault is None or fault.kind in (FaultKind.MOVE_LEADER, FaultKind.CRASH_VOTER):
            return
        self._world.record("faults", f"end   {fault.kind} {','.join(fault.targets)}")
        if fault.kind in DOWN_KINDS:
            self._down.subtract(fault.targets)
        elif fault.kind is FaultKind.PAUSE:
            host = self._world.host(fault.targets[0])
            if host.is_paused and not self._is_active(FaultKind.PAUSE, fault.targets[0]):
                host.resume()
        else:
            self._set_knobs()

    def _can_happen(self, fault: Fault) -> bool:
        """One that needs a running node has one."""
        if fault.kind is FaultKind.ISOLATE_LEADER:
            return bool(fault.targets)
        if fault.kind is FaultKind.WIPE and not self._losses.may_wipe(fault.targets[0]):
            return False
        if fault.kind in DOWN_KINDS - {FaultKind.POWER_FAILURE}:
            return self._world.host(fault.targets[0]).is_up
        if fault.kind is FaultKind.PAUSE:
            host = self._world.host(fault.targets[0])
            return host.is_up and not host.is_paused
        return True

    def _crash(self, names: Sequence[str], kind: CrashKind) -> None:
        running = [name for name in names if self._world.host(name).is_up]
        for name in running:
            self._losses.before_crash(name)
        for name in names if kind == "machine" else running:
            self._world.host(name).crash(kind)
            self._losses.process_ended(name)
        if kind == "machine":
            self._losses.machines_crashed(names)

    def _wipe(self, name: str) -> None:
        self._crash((name,), "process")
        self._world.host(name).wipe()
        self._losses.wiped(name)

    def _is_active(self, kind: FaultKind, target: str) -> bool:
        return any(fault.kind is kind and target in fault.targets for fault in self.active)

    # -- knobs --------------------------------------------------------------------------------------------------------

    def _set_knobs(self) -> None:
        """As the active faults want them."""
        self._set_links()
        for name in sorted(self._starts):
            self._set_machine(name)
        self._set_store()

    def _set_links(self) -> None:
        network = self._world.network
        blocked = {pair for fault in self.active for pair in self._blocked(fault)}
        slow = {pair: f.value for f in self.active if f.kind is FaultKind.SLOW_LINK for pair in permutations(f.targets)}
        jitter_ms = max((f.value for f in self.active if f.kind is FaultKind.REORDERING), default=0.0)
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
            for one in fault.targets:
                for other in self._everyone:
                    if other not in fault.targets:
                        yield one, other
                        yield other, one

    def _set_machine(self, name: str) -> None:
        host = self._world.host(name)
        mine = [fault for fault in self.active if name in fault.targets]
        host.clock.skew_ms = int(sum(fault.value for fault in mine if fault.kind is FaultKind.CLOCK_JUMP))
        host.clock.drift_ppm = sum(fault.value for fault in mine if fault.kind is FaultKind.CLOCK_DRIFT)
        host.disk_faults.slow_factor = max((f.value for f in mine if f.kind is FaultKind.SLOW_DISK), default=1.0)
        is_full = any(fault.kind is FaultKind.FULL_DISK for fault in mine)
        host.files.capacity_bytes = host.files.used_bytes() if is_full else None

    def _set_store(self) -> None:
        faults = self._world.store.faults
        faults.is_out = any(fault.kind is FaultKind.STORE_OUTAGE for fault in self.active)
        faults.error_share = self._largest(FaultKind.STORE_ERRORS)
        faults.lost_reply_share = self._largest(FaultKind.LOST_REPLIES)
        faults.half_upload_share = self._largest(FaultKind.HALF_UPLOADS)
        faults.hung_upload_s = self._largest(FaultKind.HUNG_UPLOADS)

    def _largest(self, kind: FaultKind) -> float:
        return max((fault.value for fault in self.active if fault.kind is kind), default=0.0)
