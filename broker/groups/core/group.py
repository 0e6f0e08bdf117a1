"""One consumer group of the classic protocol: `step(event, now) -> effects`, the whole of its behaviour over time.

    EMPTY -----------------> PREPARING_REBALANCE -----> COMPLETING_REBALANCE -----> STABLE
      ^    first member joins   |   ^   everybody joined     |    leader's assignment |
      |                         |   |   or had time to       |    is committed        |
      +--- nobody came ---------+   +---- somebody joins, leaves, is lost, is late ---+

| state | JoinGroup | SyncGroup | Heartbeat | commit by a member |
|---|---|---|---|---|
| EMPTY | begins a rebalance, held back for others | UNKNOWN_MEMBER_ID | the same | by nobody |
| PREPARING_REBALANCE | waits until all members have joined again | REBALANCE_IN_PROGRESS | the same | taken |
| COMPLETING_REBALANCE | the same answer to a retry, else a new rebalance | waits | taken | REBALANCE_IN_PROGRESS |
| STABLE | of the leader, or with news: a new rebalance | the assignment | taken | taken |
| DEAD | COORDINATOR_NOT_AVAILABLE | the same | the same | the same |

Rules:

* A generation's assignment is given out only once it is committed in the group's log (`Store` -> `Stored`).
* Every token is answered once: with what it waits for, with an error when its member goes, or when a retry replaces it.
* A dynamic member that did not join again in time is out; a static one (KIP-345) stays until its session ends.
* A member that waits for a rebalance need not send heartbeats; one that waits for its first answer has
  `NEW_MEMBER_JOIN_TIMEOUT_MS`, since it may be a retry's forgotten half.
* A member of the new generation commits in a transaction while that completes, too (KIP-447).
* One timer: the earliest of all deadlines. It may fire too early, when a deadline has moved since.

It knows no clock, no log, no offsets. Kafka's `ClassicGroup` and the `classicGroup*` methods of its
`GroupMetadataManager` are what it does; KIP-394 (an id before membership), KIP-345, KIP-134 (the initial delay).
"""

from __future__ import annotations

from typing import Final

from ....protocol import ErrorCode
from .events import (
    UNKNOWN_MEMBER_ID,
    Effect,
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    MemberIdentity,
    Now,
    Stored,
    Sync,
    TimerFired,
)
from .group_state import GroupState, Replacement, refused
from .membership import Member
from .rebalance import Rebalancing

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000


class Group(Rebalancing):
    """See the module's docstring."""

    def resume(self, now: Now) -> list[Effect]:
        """After it was restored: every member has a whole session from now on."""
        for member in self.members:
            self._extend(member, now, always=True)
        self._now = now
        return self._finish()

    def begin_again(self, now: Now) -> list[Effect]:
        """After it was another kind of group: every member has to join again."""
        self._now = now
        for member in self.members:
            self._extend(member, now, always=True)
        self._prepare_rebalance()
        return self._finish()

    def abandon(self, error: ErrorCode) -> list[Effect]:
        """It is another kind of group from now on, or none: its members try again."""
        for member in self.members:
            self._dismiss(member, error)
        for store_id, purpose in self._storing.items():
            if isinstance(purpose, Replacement):
                self._storing[store_id] = None
                self._reply(purpose.token, refused(error, purpose.answer.member_id))
        if self.state is not GroupState.DEAD:
            self._transition(GroupState.DEAD)
        return self._take_effects()

    def die(self) -> None:
        """It is being deleted: clients try again."""
        self._transition(GroupState.DEAD)

    def step(self, event: Event, now: Now) -> list[Effect]:
        """What is to be done, in this order."""
        self._now = now
        match event:
            case Join():
                self._join(event)
            case Sync():
                self._sync(event)
            case Heartbeat():
                self._heartbeat(event)
                return self._take_effects()
            case Leave():
                self._leave(event)
            case TimerFired():
                self._timer_ms = None
                self._expire()
            case Stored():
                self._stored(event)
        return self._finish()

    def judge_commit(
        self, who: MemberIdentity, generation_id: int, now: Now, *, in_transaction: bool = False
    ) -> ErrorCode:
        """Whether offsets may be committed on behalf of this group; one that is taken extends its member's session.
        Producers do not know REBALANCE_IN_PROGRESS: as in Kafka, a member of the new generation commits in a
        transaction at once.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        is_simple = generation_id < 0 and who == MemberIdentity(UNKNOWN_MEMBER_ID)
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.none
        if is_simple:
            return ErrorCode.unknown_member_id
        error = self.members.judge(who)
        if error is not ErrorCode.none:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        if self.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
            return ErrorCode.rebalance_in_progress
        self._extend(self.members[who.member_id], now)
        return ErrorCode.none

    # Joining.

    def _join(self, join: Join) -> None:
        error = self._judge_join(join)
        if error is not ErrorCode.none:
            self._reply(join.token, refused(error, join.who.member_id))
            self._after_loss()
        elif join.who.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(join)
        else:
            self._join_known(join)

    def _judge_join(self, join: Join) -> ErrorCode:
        settings = self._settings
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if not settings.session_timeout_min_ms <= join.session_timeout_ms <= settings.session_timeout_max_ms:
            return ErrorCode.invalid_session_timeout
        if not self._has_room_for(join.who.member_id):
            if join.who.member_id in self.members:
                self._remove(join.who.member_id)
            return ErrorCode.group_max_size_reached
        if not self.members.supports(join.protocol_type, join.protocols):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.none

    def _has_room_for(self, member_id: str) -> bool:
        """While a rebalance is prepared those count that have joined it: a limit that was lowered takes effect."""
        is_member = member_id in self.members
        if self.state is GroupState.EMPTY:
            return True
        if self.state is not GroupState.PREPARING_REBALANCE:
            return is_member or len(self.members) < self._settings.size_max
        if is_member and self.members[member_id].join_token is not None:
            return True
        return sum(member.join_token is not None for member in self.members) < self._settings.size_max

    def _join_new(self, join: Join) -> None:
        replaced = self.members.find_static(join.who.group_instance_id)
        if replaced is not None:
            self._replace_static(replaced, join)
        elif join.needs_known_member_id and join.who.group_instance_id is None:
            self.pending_joins[join.new_member_id] = self._now.ms + join.session_timeout_ms
            self._reply(join.token, Joined(error=ErrorCode.member_id_required, member_id=join.new_member_id))
        else:
            self._add(join, join.new_member_id)

    def _join_known(self, join: Join) -> None:
        who = join.who
        if who.member_id in self.pending_joins and who.group_instance_id is None:
            self._add(join, who.member_id)
            return
        error = self.members.judge(who)
        if error is not ErrorCode.none:
            self._reply(join.token, refused(error, who.member_id))
            return
        member = self.members[who.member_id]
        is_retry = self.state is GroupState.COMPLETING_REBALANCE
        is_follower = self.state is GroupState.STABLE and self.members.leader != who.member_id
        if member.protocols == join.protocols and (is_retry or is_follower):
            self._reply(join.token, self._joined(member))
        else:
            self._update(member, join)
            self._rebalance_or_complete()

    def _add(self, join: Join, member_id: str) -> None:
        self.pending_joins.discard(member_id)
        member = Member(
            member_id=member_id,
            group_instance_id=join.who.group_instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocol_type=join.protocol_type,
            protocols=join.protocols,
            join_token=join.token,
            is_new=True,
            deadline_ms=self._now.ms + NEW_MEMBER_JOIN_TIMEOUT_MS,
        )
        if not len(self.members):
            self.protocol_type = join.protocol_type
        self.members.add(member)
        self._hold_back()
        self._rebalance_or_complete()

    def _update(self, member: Member, join: Join) -> None:
        if member.join_token is not None:
            self._reply(member.join_token, refused(ErrorCode.rebalance_in_progress, member.member_id))
        self.members.change_protocols(member, join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_token = join.token
        if not member.is_new:
            member.deadline_ms = None

    def _replace_static(self, member: Member, join: Join) -> None:
        """Replace the member id of an instance that came back: the old id is fenced, the instance keeps its place."""
        self._dismiss(member, ErrorCode.fenced_instance_id)
        old_leader, old_protocols = self.members.leader or UNKNOWN_MEMBER_ID, member.protocols
        self._rebalance.pending_syncs.discard(member.member_id)
        self.members.rename_static(member, join.new_member_id)
        if self.state is not GroupState.STABLE:
            self._update(member, join)
            if self.state is GroupState.COMPLETING_REBALANCE:
                self._prepare_rebalance()
            else:
                self._maybe_complete_join()
            return
        self.members.change_protocols(member, join.protocols)
        if self.members.select_protocol() != self.protocol_name:
            self.members.change_protocols(member, old_protocols)
            self._update(member, join)
            self._prepare_rebalance()
            return
        member.session_timeout_ms, member.rebalance_timeout_ms = join.session_timeout_ms, join.rebalance_timeout_ms
        self._extend(member, self._now, always=True)
        self._store(self.as_value(), Replacement(join.token, self._rejoined(member, join, old_leader)))

    def _rejoined(self, member: Member, join: Join, old_leader: str) -> Joined:
        """Nothing changed for the others. A leader that cannot be asked to skip the assignment is answered with a
        leader that is not itself.
        """
        is_leader = self.members.leader == member.member_id
        can_skip = join.can_skip_assignment
        return Joined(
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=(self.members.leader or UNKNOWN_MEMBER_ID) if can_skip else old_leader,
            members=self._roster() if can_skip and is_leader else (),
            skip_assignment=can_skip and is_leader,
        )

    # Staying, leaving, being lost.

    def _heartbeat(self, heartbeat: Heartbeat) -> None:
        error = self._judge_heartbeat(heartbeat)
        if error in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            self._extend(self.members[heartbeat.who.member_id], self._now)
        self._reply(heartbeat.token, error)

    def _judge_heartbeat(self, heartbeat: Heartbeat) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self.members.judge(heartbeat.who)
        if error is not ErrorCode.none:
            return error
        if heartbeat.generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def _leave(self, leave: Leave) -> None:
        if self.state is GroupState.DEAD:
            self._reply(leave.token, Left(error=ErrorCode.coordinator_not_available))
            return
        self._reply(leave.token, Left(members=tuple((who, self._let_go(who)) for who in leave.members)))
        self._after_loss()

    def _let_go(self, who: MemberIdentity) -> ErrorCode:
        if who.member_id in self.pending_joins:
            del self.pending_joins[who.member_id]
            return ErrorCode.none
        if who.member_id == UNKNOWN_MEMBER_ID:
            static = self.members.find_static(who.group_instance_id)
            if static is None:
                return ErrorCode.unknown_member_id
            self._remove(static.member_id)
            return ErrorCode.none
        error = self.members.judge(who)
        if error is ErrorCode.none:
            self._remove(who.member_id)
        return error

    def _expire(self) -> None:
        """Everything whose time has come."""
        now_ms, rebalance = self._now.ms, self._rebalance
        for member_id in [each for each, deadline_ms in self.pending_joins.items() if deadline_ms <= now_ms]:
            del self.pending_joins[member_id]
        for member in self.members:
            if member.deadline_ms is not None and member.deadline_ms <= now_ms:
                self._remove(member.member_id)
        if rebalance.sync_deadline_ms is not None and rebalance.sync_deadline_ms <= now_ms:
            rebalance.sync_deadline_ms = None
            for member_id in sorted(rebalance.pending_syncs & self.members.ids):
                self._remove(member_id)
        self._after_loss()
        rebalance = self._rebalance
        if rebalance.join_deadline_ms is not None and rebalance.join_deadline_ms <= now_ms:
            self._complete_join()

    def _after_loss(self) -> None:
        """Members may have left: the others share what these had."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join()
        elif self._lost_members:
            self._prepare_rebalance()
        self._lost_members = False
