"""What to do next with a plan on a live cluster: `next_step(journal, state, now)`, again and again until it finishes.

    FORWARD         roll and upload, if the plan says so -> wave after wave -> configs put back -> preferred leaders
    PAUSING         what is under way ends, nothing begins -> configs put back
    CANCELLING      what is under way is taken back -> configs put back; what has moved stays
    ROLLING_BACK    what is under way is taken back, what has moved moves back, the last wave first -> configs put back

The state of the cluster is the truth: how far a plan is, is read off its partitions each time, so it does not matter
where a process before this one was killed. Rules:

* Before a wave begins, all of its partitions are looked at. If one of them was changed by another client, was deleted,
  has no leader, or would go to a broker that is not alive, the wave does not begin: what is under way ends, configs are
  put back, and every such partition is named.
* A throttle is set before the replicas that it is for are assigned, and events are written before what relies on them.
* A wave waits for moves of others on its brokers (neighbours.py).
* If the controller refuses a part of a wave, the other part is taken back.
* A replica that comes is announced to its broker with its log directory first; one that stays moves between the log
  directories once its wave's reassignments have ended, and the wave ends when all are in theirs (directories.py).
* Every action may be done twice.

It does not know the time that moves take: `now` is only compared with deadlines of waiting for uploads and for leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from .. import byte_text
from ..light_dataclass import dataclass
from ..model import Correction, Sight
from .cluster_state import ClusterState, PartitionState, Standing, describe_foreign, standing
from .directories import DirectoryMove, arriving, is_complete, left_to_do, to_stop
from .journal import ConfigValue, Entry, Event, Journal, Key, Mode, Outcome, entries_by_wave
from .neighbours import moves_of_others, waiting_for
from .throttling import throttle_configs

UNDER_WAY: Final = frozenset({Standing.MOVING, Standing.RETURNING})
ELECTION_INTERVAL_S: Final = 5.0
DIRECTORY_INTERVAL_S: Final = 5.0
"""How long to wait before a broker is asked for the same move between log directories again."""


@dataclass(frozen=True, slots=True)
class Note:
    """Append the event to the journal, durably."""

    event: Event


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """Set configs of topics and brokers; a deleted topic is skipped."""

    values: tuple[ConfigValue, ...]


@dataclass(frozen=True, slots=True)
class Reassign:
    """Ask the controller for these replicas. What it refuses is noted as `refused` with this wave; None: only the order
    of replicas is put right.
    """

    replicas: tuple[tuple[Key, tuple[int, ...]], ...]
    wave: int | None


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Cancel the reassignments of these partitions."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class MoveDirectories:
    """Ask brokers to have replicas in these log directories. That a replica is not there yet is no refusal. What is
    refused is noted as `refused` with this wave; None: what is taken back.
    """

    moves: tuple[DirectoryMove, ...]
    wave: int | None


@dataclass(frozen=True, slots=True)
class Roll:
    """Set `segment.ms` of the plan's topics, then note `rolled` with the leaders' log ends."""

    values: tuple[ConfigValue, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Preferred ones; those that may not lead yet are passed over."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again soon, or after `at_least_s`; `why` is for people."""

    why: str
    at_least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finish:
    """`problems` is what could not be done, a line for each; `notes` what an operator should know."""

    outcome: Outcome
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Action = Note | SetConfigs | Reassign | TakeBack | MoveDirectories | Roll | ElectLeaders | Wait | Finish


def next_step(journal: Journal, state: ClusterState, now_ms: int) -> tuple[Action, ...]:
    """What to do now, in this order; a `Wait` or `Finish` is the last."""
    return _Step(journal, state, now_ms).actions()


def what_is_left(journal: Journal, state: ClusterState, now_ms: int) -> tuple[str, ...]:
    """Return what a plan waits for, or would if it were resumed now, as `next_step` decides it; of a plan that is done,
    which preferred leaders do not lead. Nothing of one that was taken back.
    """
    if journal.outcome in (Outcome.CANCELLED, Outcome.ROLLED_BACK):
        return ()
    if journal.outcome in (Outcome.PAUSED, Outcome.STOPPED):
        journal = journal.apply(Event(event="resume", at_ms=now_ms))
    last = next_step(journal, state, now_ms)[-1]
    if journal.outcome is Outcome.DONE:
        return last.notes if isinstance(last, Finish) and last.outcome is Outcome.DONE else ()
    if isinstance(last, Wait):
        return (last.why,)
    assert isinstance(last, Finish), last
    return (*last.problems, *last.notes)


def expected_end(
    journal: Journal,
    state: ClusterState,
    share: float,
    now_ms: int,
    seen: Collection[str] = (),
    trail: Sequence[Sight] = (),
) -> Correction | None:
    """Return when a plan that moves forward ends, as its outlook and what is done of it say; None where nothing was
    predicted. `seen` is what happened earlier that the outlook does not know of, `trail` how far it was when.
    """
    outlook = journal.header.outlook
    if outlook is None or journal.mode is not Mode.FORWARD:
        return None
    events = dict.fromkeys((*journal.changed, *seen, *unforeseen(journal, state)))
    return outlook.corrected(Sight(journal.running_s(now_ms), share), tuple(events), trail)


def unforeseen(journal: Journal, state: ClusterState) -> list[str]:
    """Return what an outlook does not know of: brokers of the plan that have died since it began, other moves or sizes
    than it is for (the cluster was not as the inventory says), another throttle, also one that another client set. A
    plan that empties a dead broker is carried out as predicted.
    """
    outlook = journal.header.outlook
    entries = [entry for entry in journal.header.entries if entry.key not in journal.skipped]
    brokers = {broker for entry in entries for broker in (*entry.before, *entry.target)}
    found = [f"broker {broker} is not alive" for broker in sorted(brokers - state.live - set(journal.header.dead))]
    found += journal.header.differs
    if outlook is not None:
        said = outlook.of_other_moves(sum(len(set(entry.target).difference(entry.before)) for entry in entries))
        found += [said] if said else []
    if outlook is not None and outlook.throttle_bytes_per_s != journal.throttle_bytes_per_s:
        rates = [
            "no throttle" if rate is None else f"a throttle of {byte_text.rate(rate)}"
            for rate in (outlook.throttle_bytes_per_s, journal.throttle_bytes_per_s)
        ]
        found.append(f"it was predicted for {rates[0]}, and there is {rates[1]}")
    return found + _other_throttles(journal, state)


def throttled_brokers(journal: Journal) -> list[int]:
    """Return the brokers on which the throttle of a wave holds now."""
    if journal.throttled_wave is None or journal.throttle_bytes_per_s is None or journal.mode is not Mode.FORWARD:
        return []
    entries = [entry for entry in journal.header.entries if entry.wave == journal.throttled_wave]
    moved = [entry for entry in entries if set(entry.target) - set(entry.before)]
    return sorted({broker for entry in moved for broker in (*entry.before, *entry.target)})


def _other_throttles(journal: Journal, state: ClusterState) -> list[str]:
    ours = journal.throttle_bytes_per_s
    others = [
        each for each in throttled_brokers(journal) if any(rate != ours for rate in state.throttles.get(each, ()))
    ]
    if not others:
        return []
    return [f"another client has changed the throttle of {_brokers(others)}"]


class _Step:
    """One look at everything."""

    def __init__(self, journal: Journal, state: ClusterState, now_ms: int) -> None:
        self._journal = journal
        self._header = journal.header
        self._state = state
        self._now_ms = now_ms
        self._entries = [entry for entry in self._header.entries if entry.key not in journal.skipped]
        self._standing = {
            entry.key: standing(entry, self._header.topic_ids[entry.topic], state) for entry in self._entries
        }

    def actions(self) -> tuple[Action, ...]:
        match self._journal.mode:
            case Mode.FORWARD:
                return self._forward()
            case Mode.PAUSING:
                return self._end(Outcome.PAUSED)
            case Mode.CANCELLING:
                return self._take_back(self._entries) or self._straighten() or self._end(Outcome.CANCELLED)
            case Mode.ROLLING_BACK:
                return self._take_back(self._entries) or self._return()

    # --- forward ----------------------------------------------------------------------------------------------------

    def _forward(self) -> tuple[Action, ...]:
        journal = self._journal
        if journal.refused:
            refused = [entry for entry in self._entries if entry.wave == journal.refused_wave]
            return self._take_back(refused) or self._straighten() or self._end(Outcome.STOPPED, journal.refused)
        if problems := self._changed():
            return self._end(Outcome.STOPPED, problems)
        waves = entries_by_wave(entry for entry in self._entries if not self._is_complete(entry))
        if not waves:
            return self._restore() or self._lead()
        wave, entries = next(iter(waves.items()))
        if returning := [entry for entry in entries if self._of(entry) is Standing.RETURNING]:
            return (Wait(f"{_names(returning)} to return first"),)
        return self._roll() or self._move(wave, entries)

    def _move(self, wave: int, entries: Sequence[Entry]) -> tuple[Action, ...]:
        to_begin = [entry for entry in entries if self._of(entry) is Standing.BEFORE]
        if problems := [text for entry in to_begin for text in self._obstacles(entry, entry.target)]:
            return self._end(Outcome.STOPPED, problems)
        if waiting := self._others(to_begin):
            return waiting
        actions: list[Action] = []
        if self._journal.throttled_wave != wave:
            actions += self._throttle(wave, [entry for entry in self._header.entries if entry.wave == wave])
        if to_begin:
            actions += self._place(arriving(to_begin, self._state), wave)
            orders = tuple((entry.key, entry.target) for entry in to_begin)
            return (*actions, Reassign(orders, wave), Wait(self._why(entries, orders)))
        if moving := [entry for entry in entries if self._of(entry) is not Standing.DONE]:
            return (*actions, Wait(self._why(moving)))
        left = left_to_do(entries, self._state)
        return (*actions, *self._place(left.to_ask, wave), Wait(_first(left.late), DIRECTORY_INTERVAL_S))

    def _roll(self) -> tuple[Action, ...]:
        """Nothing once uploads have caught up with what was there when leaders began to roll."""
        roll, journal = self._header.roll, self._journal
        if roll is None:
            return ()
        if journal.rolled_at_ms is None:
            topics = [topic for topic in roll.topics if topic in self._header.topic_ids]
            text = str(roll.segment_ms)
            values = tuple(ConfigValue(kind="topic", name=topic, key="segment.ms", value=text) for topic in topics)
            return (Roll(values), Wait("leaders to roll"))
        behind = [key for key, end in journal.ends.items() if self._state.uploaded.get(key, end) < end]
        if behind and self._now_ms < journal.rolled_at_ms + roll.wait_max_s * 1000:
            return (Wait(f"uploads of {len(behind)} partitions to catch up"),)
        return ()

    def _lead(self) -> tuple[Action, ...]:
        """Final orders, then elections until every first replica leads or the time is over."""
        orders = [entry for entry in self._entries if self._partition(entry).replicas != entry.final]
        if orders:
            wave = max(entry.wave for entry in self._header.entries) + 1
            return (Reassign(tuple((entry.key, entry.final) for entry in orders), wave), Wait("orders to be changed"))
        late = [entry for entry in self._entries if self._partition(entry).leader != entry.final[0]]
        electable = [entry for entry in late if entry.final[0] in self._state.live]
        began_ms = self._journal.leading_at_ms
        if electable and began_ms is None:
            return (self._note("leading"), ElectLeaders(_keys(electable)), Wait(f"{_names(electable)} to be led again"))
        if electable and began_ms is not None and self._now_ms < began_ms + self._header.warm_wait_s * 1000:
            brokers = _brokers({entry.final[0] for entry in electable})
            limit = f"at most {self._header.warm_wait_s:g} s (--warm-timeout)"
            waiting = Wait(f"{brokers} to lead {_names(electable)}, once warm, {limit}", ELECTION_INTERVAL_S)
            return (ElectLeaders(_keys(electable)), waiting)
        notes = tuple(
            f"{entry.name}: broker {entry.final[0]} does not lead it yet, but {self._partition(entry).leader}"
            for entry in late
        )
        return (Finish(Outcome.DONE, notes=notes),)

    # --- back -------------------------------------------------------------------------------------------------------

    def _take_back(self, entries: Sequence[Entry]) -> tuple[Action, ...]:
        """End what is under way of these, reassignments and moves between log directories."""
        moving = [entry for entry in entries if self._of(entry) is Standing.MOVING]
        between = () if self._journal.bent else to_stop(entries, self._state)
        if not moving and not between:
            return ()
        names = _names(moving) if moving else f"{len(between)} moves between log directories"
        taken = (TakeBack(_keys(moving)),) if moving else ()
        return (*taken, *self._place(between, None), Wait(f"{names} to be taken back"))

    def _straighten(self) -> tuple[Action, ...]:
        """A reassignment that was taken back leaves the first replica at the end: the order is put right, unless the
        controller has refused that.
        """
        if self._journal.bent:
            return ()
        bent = [entry for entry in self._all(Standing.BEFORE) if self._partition(entry).replicas != entry.before]
        if not bent:
            return ()
        orders = tuple((entry.key, entry.before) for entry in bent)
        return (Reassign(orders, None), Wait(f"the order of {_names(bent)}"))

    def _return(self) -> tuple[Action, ...]:
        """Move what has moved back, the last wave first."""
        if self._journal.refused:
            return self._end(Outcome.STOPPED, self._journal.refused)
        if bent := self._straighten():
            return bent
        if returning := self._all(Standing.RETURNING):
            wave = max(entry.wave for entry in returning)
            throttle = () if self._journal.throttled_wave == wave else self._throttle(wave, returning, returns=True)
            return (*throttle, Wait(f"{_names(returning)} to move back"))
        problems = self._changed()
        done = []
        for entry in self._all(Standing.DONE):
            if self._partition(entry).replicas != entry.before:
                found = self._obstacles(entry, entry.before)
                problems += found
                done += [] if found else [entry]
        if not done:
            return self._return_directories() or self._end(
                Outcome.STOPPED if problems else Outcome.ROLLED_BACK, problems
            )
        wave = max(entry.wave for entry in done)
        entries = [entry for entry in done if entry.wave == wave]
        if waiting := self._others(entries):
            return waiting
        orders = tuple((entry.key, entry.before) for entry in entries)
        places = self._place(arriving(entries, self._state, back=True), wave)
        throttle = self._throttle(wave, entries, returns=True)
        return (*throttle, *places, Reassign(orders, wave), Wait(self._why(entries, orders)))

    def _return_directories(self) -> tuple[Action, ...]:
        """Move replicas back to the log directories from before the plan."""
        entries = [entry for entry in self._entries if self._of(entry) in (Standing.BEFORE, Standing.DONE)]
        left = left_to_do(entries, self._state, back=True)
        if left.is_done:
            return ()
        wave = max(entry.wave for entry in entries)
        throttle = () if self._journal.throttled_wave == wave else self._throttle(wave, entries, returns=True)
        return (*throttle, *self._place(left.to_ask, wave), Wait(_first(left.late), DIRECTORY_INTERVAL_S))

    # --- shared -----------------------------------------------------------------------------------------------------

    def _others(self, to_begin: Sequence[Entry]) -> tuple[Action, ...]:
        """Wait for what other plans move on the brokers of these, which are not begun yet; what an operator had
        skipped is not waited for.
        """
        if self._header.shares_brokers:
            return ()
        brokers = {broker for entry in to_begin for broker in (*entry.before, *entry.target)}
        others = moves_of_others(self._state, _keys(self._header.entries), brokers)
        return (Wait(waiting_for(others)),) if others else ()

    def _end(self, outcome: Outcome, problems: Iterable[str] = ()) -> tuple[Action, ...]:
        """Once nothing is under way and configs are as they were."""
        if under_way := [entry for entry in self._entries if self._of(entry) in UNDER_WAY]:
            return (Wait(f"{_names(under_way)} to end"),)
        if to_stop(self._entries, self._state) and outcome is Outcome.PAUSED:
            return (Wait("moves between log directories to end"),)
        notes = tuple(f"it is not as it was before: {text}" for text in self._journal.bent)
        return self._restore() or (Finish(outcome, tuple(problems), notes),)

    def _restore(self) -> tuple[Action, ...]:
        if self._journal.is_restored:
            return ()
        values = self._own(self._header.old_configs)
        return (SetConfigs(values), self._note("restored"), Wait("configs to be as before"))

    def _throttle(self, wave: int, entries: Sequence[Entry], *, returns: bool = False) -> tuple[Action, ...]:
        rate = self._journal.throttle_bytes_per_s
        if rate is None:
            return ()
        values = throttle_configs(self._header, entries, self._state.partitions, rate, returns=returns)
        return (SetConfigs(self._own(values)), self._note("throttled", wave))

    def _own(self, values: Iterable[ConfigValue]) -> tuple[ConfigValue, ...]:
        """Without those of a topic that has taken the name of one of the plan's."""
        ids = {topic: found.topic_id for (topic, _), found in self._state.partitions.items()}
        topic_ids = self._header.topic_ids
        return tuple(
            each
            for each in values
            if each.kind == "broker" or ids.get(each.name, topic_ids[each.name]) == topic_ids[each.name]
        )

    def _changed(self) -> list[str]:
        """What other clients did to the plan's partitions."""
        found = []
        for entry in self._entries:
            if self._of(entry) is Standing.GONE:
                found.append(f"{entry.name}: it was deleted; continue without it (--skip-changed), or make a new plan")
            elif self._of(entry) is Standing.FOREIGN:
                found.append(describe_foreign(entry, self._partition(entry)))
        return found

    def _obstacles(self, entry: Entry, target: tuple[int, ...]) -> list[str]:
        """Why it cannot go there now."""
        found = self._partition(entry)
        absent = [broker for broker in target if broker not in found.replicas and broker not in self._state.live]
        problems = [f"{entry.name}: broker {broker} will hold a replica, and is not alive" for broker in absent]
        if found.leader < 0:
            problems.append(f"{entry.name}: it has no leader, so nothing can be copied: elect one first")
        return problems

    def _place(self, moves: tuple[DirectoryMove, ...], wave: int | None) -> tuple[Action, ...]:
        return (MoveDirectories(moves, wave),) if moves else ()

    def _is_complete(self, entry: Entry) -> bool:
        return is_complete(entry, self._header.topic_ids[entry.topic], self._state)

    def _why(self, entries: Sequence[Entry], orders: Sequence[tuple[Key, tuple[int, ...]]] = ()) -> str:
        """Name the brokers that replicas wait for and that are not alive, else those on which they wait. `orders` have
        been given to the cluster just now, so that its state does not have them yet.
        """
        for entry in entries:
            found = self._state.partitions.get(entry.key)
            dead = [broker for broker in found.adding if broker not in self._state.live] if found else []
            if dead:
                return f"{entry.name}: broker {dead[0]} is not alive"
        states = [found for entry in entries if (found := self._state.partitions.get(entry.key)) is not None]
        late = {broker for found in states for broker in found.adding if broker not in found.isr}
        for key, replicas in orders:
            late |= set(replicas) - set(self._state.partitions[key].replicas)
        on = f" on {_brokers(late)}, without a limit" if late else ""
        return f"{_names(entries)} to be in sync{on}"

    def _all(self, which: Standing) -> list[Entry]:
        return [entry for entry in self._entries if self._of(entry) is which]

    def _of(self, entry: Entry) -> Standing:
        return self._standing[entry.key]

    def _partition(self, entry: Entry) -> PartitionState:
        return self._state.partitions[entry.key]

    def _note(self, event: str, wave: int | None = None) -> Note:
        return Note(Event.model_validate({"event": event, "at_ms": self._now_ms, "wave": wave}))


def _keys(entries: Iterable[Entry]) -> tuple[Key, ...]:
    return tuple(entry.key for entry in entries)


def _brokers(numbers: Collection[int]) -> str:
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _first(reasons: Sequence[str]) -> str:
    """Return the first one, and how many more there are."""
    return reasons[0] + (f", and {len(reasons) - 1} more" if len(reasons) > 1 else "")


def _names(entries: Sequence[Entry]) -> str:
    return entries[0].name if len(entries) == 1 else f"{len(entries)} partitions"
