"""Carries a plan out: reads the cluster, asks `planning.execution` what to do next, does it, shows how far it is.

A cluster that does not answer for a while (a controller failover, a broker that starts again) is waited for, at most
`OUTAGE_S_MAX`; then the process ends, and `resume` continues. Between two looks there is at least as long a pause as
four looks take, so that large clusters are not kept busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ...light_dataclass import dataclass
from ...model import Sight
from ...planning import (
    Action,
    ClusterState,
    ElectLeaders,
    Event,
    Finish,
    Journal,
    Mode,
    MoveDirectories,
    Note,
    Outcome,
    Reassign,
    Roll,
    SetConfigs,
    Standing,
    TakeBack,
    Wait,
    expected_end,
    is_complete,
    next_step,
    replicas_of,
    standing,
    throttled_brokers,
    unforeseen,
)
from ...protocol import OUTSIDE, ErrorCode, KafkaError
from .outlook_text import SeldomText, Trail, end_text
from .reassign_cluster import PlanCluster
from .reassign_journal import JournalFile
from .status_bar import StatusBar

LOOK_INTERVAL_S: Final = 0.5
SIZES_INTERVAL_S: Final = 5.0
REPEAT_S: Final = 30.0
"""How often a line off a terminal says when it ends, while nothing else changes."""
OUTAGE_S_MAX: Final = 300.0
_PASSES: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.coordinator_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
    }
)


@dataclass(frozen=True, slots=True)
class Done:
    """How it ended; `notes` also name what of a dead broker could not be set."""

    finish: Finish
    partitions: int
    seconds: float
    notes: tuple[str, ...]


_ENDED_BY: Final = {Outcome.CANCELLED: "cancel", Outcome.ROLLED_BACK: "rollback"}


def remainders(journal: Journal) -> list[str]:
    """Return what to do about brokers whose configs could not be put back; nothing for a plan that continues."""
    if not journal.left or journal.outcome is None:
        return []
    one = len(journal.left) == 1
    return [
        f"{'broker' if one else 'brokers'} {', '.join(map(str, journal.left))} {'was' if one else 'were'} not alive:"
        f" the replication throttle stays set there, without effect while no topic names throttled replicas; once"
        f" {'it is' if one else 'they are'} back, `tierfetch reassign {_ENDED_BY.get(journal.outcome, 'resume')}"
        f" {journal.header.plan}` removes it"
    ]


def now_ms() -> int:
    return int(time.time() * 1000)


class PlanRun:
    """One process's part of a plan. `run` returns once it has finished; KafkaError, OSError, JournalError."""

    def __init__(self, cluster: PlanCluster, journal: JournalFile, show: Callable[[Journal, ClusterState, str], None]):
        self._cluster = cluster
        self._file = journal
        self._show = show
        self._topics = sorted(journal.journal.header.topic_ids)
        self._sizes_at_s = 0.0
        self._answered_at_s = time.monotonic()

    async def run(self) -> Done:
        began_s = time.monotonic()
        self._file.append(Event(event="started", at_ms=now_ms()))
        while True:
            look_s = time.monotonic()
            try:
                found = await self._step()
            except OUTSIDE as error:
                await self._wait_out(error)
                continue
            self._answered_at_s = time.monotonic()
            if isinstance(found, Finish):
                left = tuple(sorted(self._cluster.left))
                self._file.append(Event(event="ended", at_ms=now_ms(), outcome=found.outcome, left=left))
                entries = len(self._file.journal.header.entries)
                notes = tuple(dict.fromkeys((*self._cluster.notes, *found.notes, *remainders(self._file.journal))))
                return Done(found, entries, time.monotonic() - began_s, notes)
            await asyncio.sleep(max(found.at_least_s, LOOK_INTERVAL_S, 4 * (time.monotonic() - look_s)))

    async def _step(self) -> Wait | Finish:
        """Look, and take the next step."""
        journal = self._file.refresh()
        state = await self._look(journal)
        actions = next_step(journal, state, now_ms())
        for action in actions[:-1]:
            if not await self._do(action, journal):
                return await self._step()  # at once: what was taken of the wave has not moved yet
        last = actions[-1]
        assert isinstance(last, Wait | Finish), actions
        self._show(journal, state, "" if isinstance(last, Finish) else last.why)
        return last

    async def _look(self, journal: Journal) -> ClusterState:
        state = await self._cluster.state(self._topics)
        if replicas := replicas_of(journal.header.entries):
            state = await self._cluster.with_directories(state, replicas)
        if journal.ends:
            state = replace(state, uploaded=await self._cluster.uploaded(journal.ends))
        if time.monotonic() - self._sizes_at_s > SIZES_INTERVAL_S:
            self._sizes_at_s = time.monotonic()
            state = replace(state, throttles=await self._cluster.throttles(throttled_brokers(journal)))
            moving = [key for key, part in state.partitions.items() if part.adding]
            state = replace(state, copied_bytes=await self._cluster.copied_bytes(state, moving))
        return state

    async def _do(self, action: Action, journal: Journal) -> bool:
        """False if the controller or a broker refused a part of it."""
        match action:
            case Note(event):
                self._file.append(event)
            case SetConfigs(values):
                await self._cluster.set_configs(values)
            case Roll(values):
                entries = [entry.key for entry in journal.header.entries]
                topics = {each.name for each in values}
                ends = await self._cluster.log_ends(key for key in entries if key[0] in topics)
                rows = tuple((topic, partition, end) for (topic, partition), end in sorted(ends.items()))
                await self._cluster.set_configs(values)
                self._file.append(Event(event="rolled", at_ms=now_ms(), ends=rows))
            case TakeBack(keys):
                for refusal in await self._cluster.reassign([(key, None) for key in keys]):
                    self._cluster.notes.append(f"cannot be taken back: {refusal}")
            case ElectLeaders(keys):
                await self._cluster.elect(keys)
            case MoveDirectories(moves, wave):
                return self._is_taken(await self._cluster.move_directories(moves), wave)
            case Reassign(replicas, wave):
                return self._is_taken(await self._cluster.reassign(replicas), wave)
            case Wait() | Finish():
                raise AssertionError(f"{action} is not the last")
        return True

    def _is_taken(self, refused: Sequence[str], wave: int | None) -> bool:
        """Note what was refused."""
        if refused:
            self._file.append(Event(event="refused", at_ms=now_ms(), wave=wave, problems=tuple(refused)))
        return not refused

    async def _wait_out(self, error: Exception) -> None:
        """Or raise it, if it is none that passes."""
        if isinstance(error, KafkaError) and error.code not in _PASSES:
            raise error
        if time.monotonic() - self._answered_at_s > OUTAGE_S_MAX:
            raise error
        await asyncio.sleep(LOOK_INTERVAL_S)


class ProgressBar(StatusBar):
    """A plan's progress: bytes, how many partitions have arrived, and when the rest will have."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._copied: dict[tuple[str, int], int] = {}
        self._unforeseen: dict[str, None] = {}
        self._seldom = SeldomText(clock, REPEAT_S)
        self._trail = Trail()
        self.broken = ""
        """Why the prediction does not hold any longer."""

    def show(self, journal: Journal, state: ClusterState, why: str) -> None:
        header = journal.header
        entries = [entry for entry in header.entries if entry.key not in journal.skipped]
        self._copied |= state.copied_bytes
        is_back = journal.mode in (Mode.CANCELLING, Mode.ROLLING_BACK)
        done, total, ended, wave = 0, 0, 0, 0
        for entry in entries:
            weight = 1 + entry.size_bytes
            total += weight
            where = standing(entry, header.topic_ids[entry.topic], state)
            is_moved = is_complete(entry, header.topic_ids[entry.topic], state)
            if where is Standing.BEFORE if is_back else is_moved:
                done, ended = done + weight, ended + 1
            else:
                done += min(entry.size_bytes, self._copied.get(entry.key, 0))
                wave = max(wave, entry.wave) if is_back else min(wave or entry.wave + 1, entry.wave + 1)
        waves = 1 + max((entry.wave for entry in header.entries), default=0)
        at = f", wave {min(wave, waves)} of {waves}" if wave and waves > 1 else ""
        waiting = f", waiting for {why}" if why else ""
        line = f"{journal.mode.value}{at}: {ended} of {len(entries)} partitions{waiting}"
        end = self._end(journal, state, done / total if total else 1.0)
        self.show_line(
            f"{journal.mode.value}{at}: {why}{f'; {end}' if end else ''}",
            self._seldom.of((line, self.broken), f"{line}; {end}" if end else line),
            done,
            total,
        )

    def _end(self, journal: Journal, state: ClusterState, share: float) -> str:
        """When it ends, as it looks now; "" where nothing was predicted, or nothing is left to move."""
        if journal.header.outlook is None or share >= 1.0:
            return ""
        self._unforeseen |= dict.fromkeys(unforeseen(journal, state))
        now = now_ms()
        self._trail.add(Sight(journal.running_s(now), share))
        found = expected_end(journal, state, share, now, tuple(self._unforeseen), self._trail.sights)
        if found is None:
            return ""
        self.broken = found.broken or self.broken
        return end_text(found, journal.running_s(now))
