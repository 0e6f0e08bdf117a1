"""One change of one partition, as the record that makes it: the only place that elects leaders.

| election | leader |
|---|---|
| ONLINE | the leader it has, if it can; else a live member of the ISR; else none |
| PREFERRED | the first replica, if it is a live member of the ISR known to be no thinner than another; else as ONLINE |
| UNCLEAN | as ONLINE; in place of none a live replica outside the ISR, which becomes the whole ISR |

Rules:
* Among several that can lead, full ones come first, then unknown ones, then thin ones, each group in the order of the
  replicas; a replica that joins the ISR by this change counts as unknown (`thin`). A leader is not deposed for being
  thin, nor for a replica that is thinner, or may be: that waits for the report. Where all are thin or unknown, and none
  leads, one of them is elected at once.
* The leader epoch rises with each election, with a leader lost, and when a replica is taken off the list: each time the
  record names a leader. A smaller ISR alone raises the partition epoch only (KAFKA-15021).
* The last member stays in the ISR although it is down, because no other replica has the data;
  `empty_isr_allowed` says that it has lost them.
* A reassignment ends within the change that completes it.
* A replica that joins the ISR is in a directory that its broker has: one known to be lost is replaced.
* Nothing is written if nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from uuid import UUID

from ...light_dataclass import dataclass
from ..image.registrations import NO_LEADER, RECOVERED, RECOVERING, PartitionKey, PartitionRegistration
from ..records import LEADER_UNCHANGED, PartitionChangeRecord
from ..records.topics import RECOVERY_UNCHANGED
from .reassignment_replicas import ReplicaTarget, complete
from .state import ControllerState, is_online
from .thin import Warmth


class Election(Enum):
    """The kind of election; see the module's table."""

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


@dataclass(slots=True)
class PartitionChange:
    """The change of a partition; `build` makes the record. Fields that are not set stay as they are."""

    state: ControllerState
    key: PartitionKey
    before: PartitionRegistration
    election: Election = Election.ONLINE
    can_lead: Callable[[int], bool] | None = None
    """Whether a replica is live; by default the image decides."""
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
    empty_isr_allowed: bool = False
    is_any_live_replica_taken: bool = False
    """Whether an unclean election may choose a replica whose directory is lost, as an operator has requested."""

    def build(self) -> PartitionChangeRecord | None:
        """Return the record, or None if nothing changes."""
        before = self.before
        target = self._target()
        leader, is_unclean = self._elect(target)
        # After an unclean election no other replica is known to agree with the new leader's log: each must join again.
        isr = (leader,) if is_unclean else target.isr
        if not isr and not self.empty_isr_allowed:
            isr = before.isr
        record = PartitionChangeRecord(
            partition_id=self.key.partition,
            topic_id=self.key.topic_id,
            isr=None if isr == before.isr else isr,
            leader=self._leader_to_write(leader, target),
            replicas=None if target.replicas == before.replicas else target.replicas,
            removing_replicas=None if target.removing == before.removing_replicas else target.removing,
            adding_replicas=None if target.adding == before.adding_replicas else target.adding,
            leader_recovery_state=self._recovery_to_write(leader, is_unclean=is_unclean),
            directories=self._directories(target, isr),
            eligible_leader_replicas=() if before.elr else None,
            last_known_elr=() if before.last_known_elr else None,
        )
        return None if record == _no_change(self.key) else record

    def _target(self) -> ReplicaTarget:
        before = self.before
        target = ReplicaTarget(
            replicas=before.replicas if self.replicas is None else self.replicas,
            isr=before.isr if self.isr is None else self.isr,
            adding=before.adding_replicas if self.adding is None else self.adding,
            removing=before.removing_replicas if self.removing is None else self.removing,
        )
        return complete(target) or target

    def _elect(self, target: ReplicaTarget) -> tuple[int, bool]:
        """Return the leader, and whether it is from outside the ISR."""
        candidates = [replica for replica in target.replicas if replica in target.isr and self._is_live(replica)]
        warmths = {replica: self._warmth(replica) for replica in candidates}
        best = min(candidates, key=warmths.__getitem__, default=NO_LEADER)
        is_preferred_known = target.replicas[:1] == (best,) and warmths[best] is not Warmth.UNKNOWN
        if self.election is Election.PREFERRED and is_preferred_known:
            return best, False
        # A live leader stays, warm or not: every move of leadership costs clients and followers a round of errors.
        if self.before.leader in candidates:
            return self.before.leader, False
        if candidates:
            return best, False
        # Every replica that holds all committed records is in the ISR: a leader from outside it may lose some of them,
        # so this is the last resort, and only where the topic's config or an operator prefers availability.
        if self.election is Election.UNCLEAN:
            return self._elect_unclean(target)
        return NO_LEADER, False

    def _elect_unclean(self, target: ReplicaTarget) -> tuple[int, bool]:
        live = [replica for replica in target.replicas if self._is_live(replica)]
        if not live and self.is_any_live_replica_taken:
            live = [replica for replica in target.replicas if self.state.image.is_active(replica)]
        best = min(live, key=self._warmth, default=NO_LEADER)
        return best, best != NO_LEADER

    def _warmth(self, replica: int) -> Warmth:
        warmth = self.state.warmth(self.key, replica)
        is_joining = replica not in self.before.isr
        is_reported_later = is_joining and warmth is Warmth.FULL and self.state.may_be_thin(self.key, replica)
        return Warmth.UNKNOWN if is_reported_later else warmth

    def _is_live(self, replica: int) -> bool:
        if self.can_lead is not None:
            return self.can_lead(replica)
        return self.state.can_lead(self.before, replica)

    def _leader_to_write(self, leader: int, target: ReplicaTarget) -> int:
        # Naming the leader raises its epoch, which fences fetches of the removed replica's old epoch.
        is_replica_removed = not set(self.before.replicas) <= set(target.replicas)
        return leader if leader != self.before.leader or is_replica_removed else LEADER_UNCHANGED

    def _recovery_to_write(self, leader: int, *, is_unclean: bool) -> int:
        before = self.before.leader_recovery_state
        after = before if self.recovery_state is None else self.recovery_state
        if is_unclean:
            after = RECOVERING
        assert after in (RECOVERED, RECOVERING), (self.key, after, leader)
        return RECOVERY_UNCHANGED if after == before else after

    def _directories(self, target: ReplicaTarget, isr: tuple[int, ...]) -> tuple[UUID | None, ...] | None:
        """Always set both: Apache Kafka rejects a record with only one of them."""
        before = self.before
        is_same = target.replicas == before.replicas
        if is_same and all(replica in before.isr for replica in isr):
            return None
        directories = tuple(self._directory(replica, isr) for replica in target.replicas)
        return None if is_same and directories == before.directories else directories

    def _directory(self, replica: int, isr: tuple[int, ...]) -> UUID | None:
        directory = self.before.directory_of(replica)
        broker = self.state.image.brokers.get(replica)
        if broker is None:
            return directory
        is_new = replica not in self.before.replicas
        is_joining = replica in isr and replica not in self.before.isr
        if is_new or (is_joining and not is_online(directory, broker)):
            return broker.default_directory
        return directory


def _no_change(key: PartitionKey) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=key.partition, topic_id=key.topic_id)
