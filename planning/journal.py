"""What a plan's execution remembers beside the cluster itself, as lines of JSON that are only ever appended.

The first line is the header: the plan, what there was before it, and which configs have to be put back. Every later one
is an event. Nothing in it says how far the moves are: that is read off the cluster, so a journal cannot be wrong about
it. A last line that a crash tore is left out.

    event         means
    ------------  ----------------------------------------------------------------------------------------------------
    started       a process carries the plan out from now on; it sets throttles again, and will restore configs
    throttled     the throttle is set for this wave
    rolled        leaders roll and upload; `ends` is what was their log end then
    refused       the controller refused partitions of this wave, or a broker a log directory: `problems`; without a
                  wave: to put things back
    restored      configs are as they were before the plan
    leading       the last step, preferred leaders, has begun
    pause, cancel, roll_back, resume    asked for by an operator; `skipped` are partitions to leave alone from now on,
                  `old_configs` what there was before a plan without a throttle gets one, `warm_wait_s` how long new
                  leaders may take from now on, `shares_brokers` that other plans are not waited for any longer,
                  `waves` the waves from now on of partitions that had not begun.
                  `resume` continues what was asked for last; of a plan that has ended nothing is left to do, so that it
                  ends as it did before
    ended         the process has ended with this outcome; `left` are brokers that were not alive, so that their configs
                  could not be put back
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..light_dataclass import dataclass
from ..model import Outlook, located
from ..protocol import OperatorError
from .plan_file import Roll

Key = tuple[str, int]
"""Topic and partition."""


class JournalError(OperatorError, ValueError):
    """No journal, or a damaged one."""


class Mode(StrEnum):
    """What is being done."""

    FORWARD = "moving"
    PAUSING = "pausing"
    CANCELLING = "cancelling"
    ROLLING_BACK = "rolling back"


class Outcome(StrEnum):
    """How a process ended; a paused or stopped plan can be continued."""

    DONE = "done"
    PAUSED = "paused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled back"


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Entry(_Value):
    """One partition: its replicas before, what it is reassigned to, and in which order it ends.

    `size_bytes` are copied; `held_bytes` is what its leader had on its disk when it was planned, None if that is
    not known.

    `directories` has the log directory of each replica for which the plan names one, by broker; `directories_before`
    where replicas of such a partition were before.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    target: tuple[int, ...]
    final: tuple[int, ...]
    wave: int
    size_bytes: int = 0
    held_bytes: int | None = None
    directories: tuple[tuple[int, str], ...] = ()
    directories_before: tuple[tuple[int, str], ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class ConfigValue(_Value):
    """One config of a topic or broker; None: not set."""

    kind: Literal["topic", "broker"]
    name: str
    key: str
    value: str | None


class Header(_Value):
    """`warm_wait_s`: how long new leaders may take to hold enough; `throttle_bytes_per_s` None: none is set;
    `shares_brokers`: what others do on the plan's brokers is not looked at. `outlook`: how long it takes, as predicted;
    `dead`: brokers of the plan that were not alive when it began; `differs`: in what the cluster was another one then
    than that of the outlook, a line for each.
    """

    version: Literal[1] = 1
    cluster_id: str
    plan: str
    created_at_ms: int
    topic_ids: Mapping[str, str]
    entries: tuple[Entry, ...]
    throttle_bytes_per_s: Annotated[int, Field(gt=0)] | None
    roll: Roll | None
    warm_wait_s: float
    old_configs: tuple[ConfigValue, ...]
    shares_brokers: bool = False
    outlook: Outlook | None = None
    dead: tuple[int, ...] = ()
    differs: tuple[str, ...] = ()


class Event(_Value):
    event: Literal[
        "started",
        "throttled",
        "rolled",
        "refused",
        "restored",
        "leading",
        "pause",
        "cancel",
        "roll_back",
        "resume",
        "ended",
    ]
    at_ms: int
    wave: int | None = None
    problems: tuple[str, ...] = ()
    skipped: tuple[Key, ...] = ()
    ends: tuple[tuple[str, int, int], ...] = ()
    throttle_bytes_per_s: int | None = None
    old_configs: tuple[ConfigValue, ...] = ()
    warm_wait_s: float | None = None
    shares_brokers: bool = False
    waves: tuple[tuple[str, int, int], ...] = ()
    outcome: Outcome | None = None
    left: tuple[int, ...] = ()


_AIMS: Mapping[str, Mode] = {"cancel": Mode.CANCELLING, "roll_back": Mode.ROLLING_BACK}
ENDED: Final = frozenset({Outcome.DONE, Outcome.CANCELLED, Outcome.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class Journal:
    """The header with all events so far. `throttled_wave` is what this process has set the throttle for, `aim` what
    `resume` continues with, `bent` why the order of replicas cannot be put right, `left` as in `ended`; `changed` what
    was asked for that its outlook does not know of.
    """

    header: Header
    mode: Mode = Mode.FORWARD
    aim: Mode = Mode.FORWARD
    throttle_bytes_per_s: int | None = None
    throttled_wave: int | None = None
    is_restored: bool = True
    rolled_at_ms: int | None = None
    ends: Mapping[Key, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    refused_wave: int | None = None
    bent: tuple[str, ...] = ()
    leading_at_ms: int | None = None
    skipped: frozenset[Key] = frozenset()
    outcome: Outcome | None = None
    left: tuple[int, ...] = ()
    began_at_ms: int | None = None
    ended_at_ms: int | None = None
    idle_ms: int = 0
    changed: tuple[str, ...] = ()

    @classmethod
    def of(cls, header: Header) -> Self:
        return cls(header, throttle_bytes_per_s=header.throttle_bytes_per_s)

    def apply(self, event: Event) -> Journal:
        """The journal with one event more."""
        match event.event:
            case "started":
                return self._started(event)
            case "throttled":
                return replace(self, throttled_wave=event.wave, is_restored=False)
            case "rolled":
                ends = {(topic, partition): end for topic, partition, end in event.ends}
                return replace(self, rolled_at_ms=event.at_ms, ends=ends, is_restored=False)
            case "refused":
                return self._refused(event)
            case "restored":
                return replace(self, is_restored=True, throttled_wave=None, rolled_at_ms=None)
            case "leading":
                return replace(self, leading_at_ms=event.at_ms)
            case "ended":
                return replace(self, outcome=event.outcome, left=event.left, ended_at_ms=event.at_ms)
            case "pause":
                return self._asked(Mode.PAUSING, self.aim, event)
            case "resume":
                return self._asked(self.aim, self.aim, event)
            case asked:
                return self._asked(_AIMS[asked], _AIMS[asked], event)

    def running_s(self, now_ms: int) -> float:
        """Seconds since the first process began, without those between the end of one and the next."""
        if self.began_at_ms is None:
            return 0.0
        until_ms = now_ms if self.ended_at_ms is None else self.ended_at_ms
        return max(0, until_ms - self.began_at_ms - self.idle_ms) / 1000

    def _started(self, event: Event) -> Journal:
        idle_ms = 0 if self.ended_at_ms is None else max(0, event.at_ms - self.ended_at_ms)
        return replace(
            self,
            throttled_wave=None,
            outcome=None,
            is_restored=not self.header.old_configs,
            began_at_ms=event.at_ms if self.began_at_ms is None else self.began_at_ms,
            ended_at_ms=None,
            idle_ms=self.idle_ms + idle_ms,
        )

    def _refused(self, event: Event) -> Journal:
        if event.wave is None:
            return replace(self, bent=event.problems)
        return replace(self, refused=event.problems, refused_wave=event.wave)

    def _asked(self, mode: Mode, aim: Mode, event: Event) -> Journal:
        """What an operator requests; a refusal is forgotten, so that it can be tried again."""
        return replace(
            self,
            header=self._header_from(event),
            mode=mode,
            aim=aim,
            outcome=None,
            refused=(),
            refused_wave=None,
            bent=(),
            leading_at_ms=None,
            throttled_wave=None,
            skipped=self.skipped | frozenset(event.skipped),
            throttle_bytes_per_s=event.throttle_bytes_per_s or self.throttle_bytes_per_s,
            changed=self.changed + self._changes(event),
        )

    def _header_from(self, event: Event) -> Header:
        """Return the header as an operator has it from now on."""
        header = self.header
        waves = {(topic, partition): wave for topic, partition, wave in event.waves}
        return header.model_copy(
            update={
                "entries": tuple(
                    each.model_copy(update={"wave": waves[each.key]}) if each.key in waves else each
                    for each in header.entries
                ),
                "old_configs": event.old_configs or header.old_configs,
                "warm_wait_s": header.warm_wait_s if event.warm_wait_s is None else event.warm_wait_s,
                "shares_brokers": header.shares_brokers or event.shares_brokers,
            }
        )

    def _changes(self, event: Event) -> tuple[str, ...]:
        """What an operator asked for that no prediction knew of."""
        found = []
        if event.throttle_bytes_per_s not in (None, self.throttle_bytes_per_s):
            found.append("the throttle was changed while it ran")
        if event.waves:
            found.append("what had not begun was divided into other waves")
        if event.event in _AIMS:
            found.append(f"an operator asked to {event.event.replace('_', ' ')}")
        return tuple(each for each in found if each not in self.changed)


def parse_journal(data: bytes, source: str) -> Journal:
    """JournalError names file and line."""
    lines = data.split(b"\n")[:-1]
    if not lines:
        raise JournalError(
            f"{source}: not a journal: it is empty, or its first line was torn by a crash;"
            " start again with `reassign execute`"
        )
    try:
        journal = Journal.of(Header.model_validate_json(lines[0]))
    except ValidationError as error:
        raise JournalError(f"{source}: line 1: not a journal of a reassignment: {located(error.errors()[0])}") from None
    for number, line in enumerate(lines[1:], 2):
        journal = journal.apply(parse_event(line, f"{source}: line {number}"))
    return journal


def parse_event(line: bytes, source: str) -> Event:
    """JournalError."""
    try:
        return Event.model_validate_json(line)
    except ValidationError as error:
        raise JournalError(f"{source}: {located(error.errors()[0])}") from None


def line_of(value: Header | Event) -> bytes:
    """As it is appended."""
    return value.model_dump_json(exclude_defaults=isinstance(value, Event)).encode() + b"\n"


def entries_by_wave(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """In the order of the waves."""
    found: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.wave):
        found.setdefault(entry.wave, []).append(entry)
    return found
