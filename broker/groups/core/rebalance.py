"""A rebalance: everybody joins (again), the leader assigns, the assignment is committed and given out.

    prepare --everybody joined, or the time is over--> complete join --leader's SyncGroup--> Store --Stored--> STABLE

The first rebalance of a group is held back for others to come (KIP-134): `group.initial.rebalance.delay.ms` from the
first member on, and at least a third of it from the last newcomer on. Any later one waits at most the longest rebalance
timeout of its members, and so does the time from a JoinGroup's answer to the SyncGroup.
"""

from __future__ import annotations

from typing import Final

from ....protocol import ErrorCode
from .events import Stored, Sync, Synced
from .group_state import Assignments, GroupBase, GroupState, Rebalance, Replacement, refused

NEWCOMERS_IN_DELAY: Final = 3
"""A newcomer holds the first rebalance back for the delay divided by this."""


class Rebalancing(GroupBase):
    """See the module's docstring."""

    # Joining.

    def _rebalance_or_complete(self) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join()
        else:
            self._prepare_rebalance()

    def _prepare_rebalance(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.rebalance_in_progress)
        is_initial = self.state is GroupState.EMPTY
        self._rebalance = Rebalance()
        self._transition(GroupState.PREPARING_REBALANCE)
        if is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._rebalance.join_deadline_ms = self._now.ms + delay_ms
            self._rebalance.initial_until_ms = self._now.ms + max(self.members.rebalance_timeout_ms, delay_ms)
        else:
            self._rebalance.join_deadline_ms = self._now.ms + self.members.rebalance_timeout_ms
            self._maybe_complete_join()

    def _maybe_complete_join(self) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE or self._rebalance.initial_until_ms is not None:
            return
        if not self.pending_joins and all(member.join_token is not None for member in self.members):
            self._complete_join()

    def _hold_back(self) -> None:
        """A newcomer came: others may be right behind it (KIP-134)."""
        rebalance = self._rebalance
        if rebalance.initial_until_ms is not None and rebalance.join_deadline_ms is not None:
            wanted_ms = self._now.ms + self._settings.initial_rebalance_delay_ms // NEWCOMERS_IN_DELAY
            rebalance.join_deadline_ms = max(rebalance.join_deadline_ms, min(wanted_ms, rebalance.initial_until_ms))

    def _complete_join(self) -> None:
        self._rebalance.join_deadline_ms = self._rebalance.initial_until_ms = None
        for member in self.members:
            # Static members keep their place until their session ends (KIP-345).
            if member.join_token is None and member.group_instance_id is None:
                self._remove(member.member_id)
        self._lost_members = False
        # No member waits for an answer, so none could assign: leave the rebalance open for another timeout.
        if len(self.members) and not self.members.elect_waiting_leader():
            self._rebalance.join_deadline_ms = self._now.ms + self.members.rebalance_timeout_ms
            return
        # From here on, requests of the earlier generation fail: their assignment no longer holds.
        self.generation_id += 1
        if not len(self.members):
            self.protocol_name = None
            self._transition(GroupState.EMPTY)
            self._store(self.as_value(), None)
            return
        self.protocol_name = self.members.select_protocol()
        self._transition(GroupState.COMPLETING_REBALANCE)
        self._rebalance.sync_deadline_ms = self._now.ms + self.members.rebalance_timeout_ms
        for member in self.members:
            token, member.join_token, member.is_new = member.join_token, None, False
            self._extend(member, self._now, always=True)
            self._rebalance.pending_syncs.add(member.member_id)
            if token is not None:
                self._reply(token, self._joined(member))

    # Assigning.

    def _sync(self, sync: Sync) -> None:
        error = self._judge_sync(sync)
        if error is not ErrorCode.none:
            self._reply(sync.token, Synced(error=error))
            return
        member = self.members[sync.who.member_id]
        if self.state is GroupState.STABLE:
            self._extend(member, self._now)
            self._reply(sync.token, self._synced(member))
            return
        if member.sync_token is not None:
            self._reply(member.sync_token, Synced(error=ErrorCode.rebalance_in_progress))
        member.sync_token, member.deadline_ms = sync.token, None
        self._rebalance.pending_syncs.discard(member.member_id)
        if not self._rebalance.pending_syncs:
            self._rebalance.sync_deadline_ms = None
        if self.members.leader == member.member_id:
            # Members are answered only once this is committed: a new coordinator must know what they act on.
            value = self._value({each.member_id: sync.assignments.get(each.member_id, b"") for each in self.members})
            self._store(value, Assignments(self.generation_id, sync.assignments))

    def _judge_sync(self, sync: Sync) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self.members.judge(sync.who)
        if error is not ErrorCode.none:
            return error
        if sync.generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        is_other_type = sync.protocol_type is not None and sync.protocol_type != self.protocol_type
        if is_other_type or (sync.protocol_name is not None and sync.protocol_name != self.protocol_name):
            return ErrorCode.inconsistent_group_protocol
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def _stored(self, stored: Stored) -> None:
        what = self._storing.pop(stored.store_id)
        if isinstance(what, Replacement):
            failed = refused(stored.error, what.answer.member_id)
            self._reply(what.token, what.answer if stored.error is ErrorCode.none else failed)
        elif what is not None:
            is_current = what.generation_id == self.generation_id and self.state is GroupState.COMPLETING_REBALANCE
            # Another rebalance began while the assignment was written: it answers the members.
            if not is_current:
                return
            if stored.error is not ErrorCode.none:
                self._fail_syncs(stored.error)
                self._prepare_rebalance()
                return
            self._transition(GroupState.STABLE)
            for member in self.members:
                self.members.assign(member, what.by_member.get(member.member_id, b""))
                token, member.sync_token = member.sync_token, None
                if token is not None:
                    self._extend(member, self._now, always=True)
                    self._reply(token, self._synced(member))

    def _fail_syncs(self, error: ErrorCode) -> None:
        for member in self.members:
            self.members.assign(member, b"")
            token, member.sync_token = member.sync_token, None
            if token is not None:
                self._extend(member, self._now, always=True)
                self._reply(token, Synced(error=error))
