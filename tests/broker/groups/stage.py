"""One group on a stage: members are letters, every answer and every record is written down as a short line.

    stage.join("a")          -> ["a: MEMBER_ID_REQUIRED a-1"]
    stage.tick(3000)         -> ["a-1: joined generation 1 leader a-1 range, members a-1"]

Tokens are the names under which somebody asked; a member's id is its letter with a number behind it, as it was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierfetch.broker.groups.core.events import (
    Effect,
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    MemberIdentity,
    Now,
    Reply,
    SetTimer,
    Store,
    Stored,
    Sync,
    Synced,
    TimerFired,
)
from tierfetch.broker.groups.core.group import Group
from tierfetch.broker.groups.core.group_state import GroupSettings, GroupState
from tierfetch.broker.groups.core.records import GroupValue
from tierfetch.protocol.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
WALL_MS = 1_700_000_000_000
RANGE = (("range", b"r"),)


class Stage:
    """Performs effects: a record is committed at once unless `holds_stores`; the timer fires when time passes it."""

    def __init__(self, settings: GroupSettings | None = None, group: Group | None = None) -> None:
        self.group = group or Group("g", settings or GroupSettings(initial_rebalance_delay_ms=DELAY_MS))
        self.now_ms = 0
        self.timer_ms: int | None = None
        self.holds_stores = False
        self.held: list[Store] = []
        self.stored: list[GroupValue] = []
        self.waiting: list[object] = []
        self._drawn = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    @property
    def state(self) -> GroupState:
        return self.group.state

    # What members do.

    def join(
        self,
        name: str,
        *,
        member: str = "",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        kind: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> list[str]:
        self._drawn += 1
        return self.hear(
            Join(
                token=name,
                who=MemberIdentity(member, instance),
                new_member_id=f"{name}-{self._drawn}",
                client_id=name,
                client_host="/127.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=kind,
                protocols=protocols,
                needs_known_member_id=version >= 4,
                can_skip_assignment=version >= 9,
            )
        )

    def enter(self, name: str, **options: object) -> list[str]:
        """Join as a client does: come again with the id that was given."""
        (line,) = self.join(name, **options)  # type: ignore[arg-type]
        member = line.removeprefix(f"{name}: MEMBER_ID_REQUIRED ")
        return self.join(name, member=member, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol: str | None = None,
    ) -> list[str]:
        return self.hear(
            Sync(
                token=member,
                who=MemberIdentity(member, instance),
                generation_id=self.group.generation_id if generation is None else generation,
                protocol_name=protocol,
                assignments=assignments or {},
            )
        )

    def heartbeat(self, member: str, *, generation: int | None = None, instance: str | None = None) -> str:
        (line,) = self.hear(
            Heartbeat(
                token=member,
                who=MemberIdentity(member, instance),
                generation_id=self.group.generation_id if generation is None else generation,
            )
        )
        return line.removeprefix(f"{member}: ")

    def leave(self, *members: str | MemberIdentity) -> list[str]:
        identities = tuple(each if isinstance(each, MemberIdentity) else MemberIdentity(each) for each in members)
        return self.hear(Leave(token="leaving", members=identities))

    def tick(self, passed_ms: int) -> list[str]:
        """Let time pass; the timer fires as often as it is set within it."""
        end_ms, lines = self.now_ms + passed_ms, []
        while self.timer_ms is not None and self.timer_ms <= end_ms:
            self.now_ms, self.timer_ms = max(self.now_ms, self.timer_ms), None
            lines += self.hear(TimerFired())
        self.now_ms = end_ms
        return lines

    def settle(self, error: ErrorCode = ErrorCode.none) -> list[str]:
        """What was held back is committed, or fails."""
        held, self.held = self.held, []
        return [line for store in held for line in self.hear(Stored(store.store_id, error))]

    # What becomes of it.

    def hear(self, event: Event) -> list[str]:
        return self.perform(self.group.step(event, self.now))

    def perform(self, effects: list[Effect]) -> list[str]:
        lines: list[str] = []
        for effect in effects:
            match effect:
                case Reply(token, answer):
                    lines.append(f"{token}: {_written(answer)}")
                case SetTimer(deadline_ms):
                    assert self.timer_ms is None or deadline_ms < self.timer_ms
                    self.timer_ms = deadline_ms
                case Store() if self.holds_stores:
                    self.held.append(effect)
                case Store():
                    self.stored.append(effect.value)
                    lines += self.hear(Stored(effect.store_id, ErrorCode.none))
        return lines


def _written(answer: object) -> str:
    match answer:
        case Joined() if answer.error is not ErrorCode.none:
            return f"{answer.error.name.upper()} {answer.member_id}".strip()
        case Joined():
            line = f"joined generation {answer.generation_id} as {answer.member_id} leader {answer.leader}"
            line += f" {answer.protocol_name}"
            if answer.members:
                line += ", members " + " ".join(sorted(who.member_id for who, _ in answer.members))
            return line + (", skip" if answer.skip_assignment else "")
        case Synced() if answer.error is not ErrorCode.none:
            return answer.error.name.upper()
        case Synced():
            return f"assigned {answer.assignment.decode()}"
        case Left():
            each = [f"{who.member_id or who.group_instance_id} {error.name.upper()}" for who, error in answer.members]
            return ", ".join(each) if answer.error is ErrorCode.none else answer.error.name.upper()
        case ErrorCode():
            return answer.name.upper()
    raise AssertionError(answer)


def stable_pair(stage: Stage) -> None:
    """a-1 leads, b-3 follows, generation 1."""
    stage.enter("a")
    stage.enter("b")
    stage.tick(2 * DELAY_MS)
    stage.sync("b-3")
    stage.sync("a-1", {"a-1": b"p0", "b-3": b"p1"})
    assert stage.state is GroupState.STABLE
