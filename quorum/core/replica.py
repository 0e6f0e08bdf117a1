"""One replica's state that outlives its roles, the way its effects take, and nothing that decides anything.

Effects pass through `emit` in the order in which they were decided. A `PersistState` closes the gate: what is
decided after it waits until `StatePersisted` comes. So no vote, request, answer or append leaves before the state that
it follows from is on disk, and a core whose state is never reported as persisted does nothing further.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .config import RaftConfig
from .effects import (
    AppendFetched,
    AppendRecords,
    Effect,
    Flush,
    HighWatermarkAdvanced,
    InstallSnapshot,
    PersistState,
    Reply,
    Send,
    Truncate,
    VoterProven,
    VotersChanged,
)
from .events import RecoveredState
from .log_view import LogView
from .messages import PeerRequest, Response
from .roles import Probation, Role, Unattached
from .state import (
    NO_DIRECTORY_ID,
    Chance,
    ElectionState,
    Endpoint,
    LeaderAndEpoch,
    OffsetAndEpoch,
    RaftState,
    ReplicaKey,
)
from .voters import VoterHistory, VoterNode, VotersAt, VoterSet

NOBODY = ReplicaKey(-1)
"""The key of a fetcher that is served and counts for nothing."""
FIRST_BOOTSTRAP_ID = -2
"""Peers below 0 are bootstrap servers: the n-th is -2 - n."""


class RaftStatus(NamedTuple):
    """A replica's view of its quorum. A named tuple, because it is made for every decision of the controller.

    | field | meaning |
    |---|---|
    | leader_endpoint | where the leader listens, this replica included; None while that is not known |
    | voted_id | the candidate that got this replica's vote in this epoch, or None |
    | granting_voters | the voters whose votes a candidate has, or a leader won by; empty in other states |
    | voters | the voter set in effect, committed or not |
    | next_offset | the offset of the next record appended here, after all that waits to be written |
    """

    state: RaftState
    leader_and_epoch: LeaderAndEpoch
    leader_endpoint: Endpoint | None
    voted_id: int | None
    granting_voters: tuple[int, ...]
    is_voter: bool
    voters: VotersAt
    high_watermark: int
    next_offset: int


class Replica:
    """Shared by the modules that decide. Times in ms, offsets exclusive ends."""

    __slots__ = (
        "_awaited",
        "_changing",
        "_effects",
        "_held",
        "_is_proven_with_state",
        "_persisted",
        "announced_leader",
        "chance",
        "config",
        "election_attempts",
        "epoch",
        "epochs_claimed_until_ms",
        "fatal_reason",
        "high_watermark",
        "is_leader_lost",
        "is_refused",
        "is_shutting_down",
        "is_started",
        "is_voter",
        "key",
        "leader_endpoint",
        "leader_id",
        "log",
        "now_ms",
        "other_voters",
        "probation",
        "role",
        "shutdown_deadline_ms",
        "voted_key",
        "voter_history",
        "voters",
        "was_voter",
    )

    def __init__(self, config: RaftConfig, recovered: RecoveredState, chance: Chance) -> None:
        election = recovered.election
        self.config = config
        self.key = config.key
        self.chance = chance
        self.log = LogView(recovered)
        self.voter_history = VoterHistory(recovered.voters)
        self.voters: VoterSet = VoterSet()
        self.other_voters: tuple[VoterNode, ...] = ()
        self.is_voter = self.was_voter = self.is_refused = False
        self.probation = Probation() if recovered.is_unproven else None
        self.high_watermark = max(recovered.high_watermark, recovered.log_start.offset)
        self.epoch = election.epoch
        self.epochs_claimed_until_ms = 0
        """See `requests`."""
        self.leader_id = election.leader_id
        self.leader_endpoint: Endpoint | None = None
        self.is_leader_lost = False
        """The leader was silent for a fetch timeout, and has answered no fetch since: it may listen elsewhere."""
        self.voted_key = election.voted_key
        self.announced_leader: LeaderAndEpoch | None = None
        self.role: Role = Unattached(0, 0)
        self.election_attempts = 0
        self.is_started = False
        self.is_shutting_down = False
        self.shutdown_deadline_ms = 0
        self.now_ms = 0
        self.fatal_reason: str | None = None
        self._persisted = election
        self._effects: list[Effect] = []
        self._held: deque[Effect] = deque()
        self._awaited: PersistState | None = None
        self._changing: PersistState | None = None
        self._is_proven_with_state = False
        self._apply_voters()

    # --- effects

    def emit(self, effect: Effect) -> None:
        """Hand `effect` out, or keep it until the state that was decided before it is on disk."""
        if self._awaited is not None:
            self._held.append(effect)
            return
        self._effects.append(effect)
        if isinstance(effect, PersistState):
            self._awaited = effect

    def emit_past_gate(self, effect: Effect) -> None:
        """Emit an effect that depends on no state."""
        self._effects.append(effect)

    @property
    def is_awaiting_disk(self) -> bool:
        """Whether effects wait for a state to be persisted."""
        return self._awaited is not None

    def take_effects(self) -> list[Effect]:
        """What this step let out, once, at its end."""
        if self._changing is not None:
            self._settle(self._changing)
        effects, self._effects = self._effects, []
        return effects

    def persist(self) -> None:
        """Epoch, leader or vote changed. A step that changes them more than once writes the last state only: what was
        decided in between waits for it as well."""
        state = ElectionState(self.epoch, self.leader_id, self.voted_key)
        if state == self._persisted:
            return
        self._persisted = state
        if self._changing is None:
            self._changing = PersistState(state)
            self.emit(self._changing)

    def _settle(self, provisional: PersistState) -> None:
        effect = PersistState(self._persisted, self._is_proven_with_state)
        self._is_proven_with_state = False
        if self._awaited is provisional:
            self._effects[self._effects.index(provisional)] = self._awaited = effect
        else:
            self._held[self._held.index(provisional)] = effect
        self._changing = None

    def end_probation(self) -> None:
        """Together with the state that this step changes, if it changes one."""
        self.probation = None
        if self._changing is not None:
            self._is_proven_with_state = True
        else:
            self.emit(VoterProven())

    def confirm_persisted(self, state: ElectionState) -> None:
        awaited = self._awaited
        assert awaited is not None, f"{state} was persisted, nothing is awaited"
        assert awaited.state == state, f"{state} was persisted, {awaited} is awaited"
        self._awaited = None
        while self._held and self._awaited is None:
            self.emit(self._held.popleft())

    def reply(self, token: object, response: Response) -> None:
        self.emit(Reply(token, response))

    def send(self, peer_id: int, request: PeerRequest) -> None:
        self.emit(Send(peer_id, self.endpoint_of(peer_id), request))

    def append(self, effect: AppendRecords | AppendFetched) -> None:
        """Append, and flush: nothing is acknowledged before."""
        self.log.append(effect)
        self.emit(effect)
        flush = Flush(effect.end_offset)
        self.log.flush(flush)
        self.emit(flush)

    def truncate(self, end_offset: int) -> None:
        effect = Truncate(end_offset)
        self.log.truncate(effect)
        self.emit(effect)
        history = self.voter_history.truncated(end_offset)
        if history is not self.voter_history:
            self.voter_history = history
            self._apply_voters()

    def install_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        effect = InstallSnapshot(snapshot_id)
        self.log.install(effect)
        self.emit(effect)

    def advance_high_watermark(self, offset: int) -> bool:
        """Whether it moved; it never falls."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.voter_history = self.voter_history.committed(offset)
        self._know_own_part()
        self.emit(HighWatermarkAdvanced(offset))
        return True

    # --- identities

    @property
    def leader(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.leader_id, self.epoch)

    @property
    def kraft_version(self) -> int:
        return self.voter_history.entries[-1].kraft_version

    def add_voters(self, entry: VotersAt) -> None:
        """A voter set is in effect from now on, committed or not."""
        self.voter_history = self.voter_history.appended(entry)
        self._apply_voters()

    def replace_voters(self, entry: VotersAt) -> None:
        """A snapshot took the log's place: its voter set is the only one known."""
        self.voter_history = VoterHistory((entry,))
        self._apply_voters()

    def _apply_voters(self) -> None:
        is_same = self.voter_history.latest.voters == self.voters
        self.voters = self.voter_history.latest.voters
        self.other_voters = tuple(node for node in self.voters if node.id != self.config.key.id)
        self._know_own_part()
        if is_same:
            return
        self.emit(VotersChanged(self.voters, self.kraft_version))

    def _know_own_part(self) -> None:
        key, has_listener = self.config.key, bool(self.config.endpoints)
        self.is_voter = has_listener and self.voters.contains(key)
        self.was_voter = has_listener and any(entry.voters.contains(key) for entry in self.voter_history.entries)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election. A removed voter may until it knows that its removal is
        committed: it may be the only one whose log is long enough (Raft dissertation 4.2.2). Pre-votes keep it from
        disturbing. A voter whose log may lack what it acknowledged must not (`probation`), nor one that a leader
        rejects as another node than the voter."""
        return self.was_voter and not self.is_refused and (self.probation is None or self.log.end_offset == 0)

    @property
    def fetching_key(self) -> ReplicaKey:
        """The key to fetch under; NOBODY while the position of this replica must not count (`probation`)."""
        return self.config.key if self.probation is None else NOBODY

    def others_that_may_vote(self) -> list[VoterNode]:
        """Also those of older voter sets that may yet be in effect again."""
        nodes = {node.id: node for entry in self.voter_history.entries for node in entry.voters}
        return [nodes[node_id] for node_id in sorted(nodes) if node_id != self.config.key.id]

    def is_this_replica(self, key: ReplicaKey | None) -> bool:
        """Whether a request that names its receiver means this one; a directory id of nil is not compared."""
        own = self.config.key
        return key is None or (key.id == own.id and key.directory_id in (own.directory_id, NO_DIRECTORY_ID))

    def endpoint_of(self, peer_id: int) -> Endpoint | None:
        if peer_id <= FIRST_BOOTSTRAP_ID:
            return self.config.bootstrap_servers[FIRST_BOOTSTRAP_ID - peer_id]
        if peer_id == self.leader_id and self.leader_endpoint is not None:
            return self.leader_endpoint
        entries = reversed(self.voter_history.entries)
        return next((entry.voters.by_id[peer_id].endpoint for entry in entries if peer_id in entry.voters.by_id), None)

    def known_leader_endpoint(self) -> Endpoint | None:
        """Return where the leader listens, to be passed on to other nodes; None if that is not known."""
        if self.leader_id == self.config.key.id:
            return self.config.endpoints[0] if self.config.endpoints else None
        return None if self.leader_id is None else self.endpoint_of(self.leader_id)

    def random_peer(self) -> int | None:
        """Return a node that may know the leader, or None.

        The voters that this replica knows may all have been removed while it was down, so the bootstrap servers are
        candidates too, and the leader that others name.
        """
        peers = [node.id for node in self.other_voters]
        servers = enumerate(self.config.bootstrap_servers)
        own = {(item.host, item.port) for item in self.config.endpoints}
        peers += [FIRST_BOOTSTRAP_ID - index for index, item in servers if (item.host, item.port) not in own]
        leader_id = self.leader_id
        if leader_id is not None and leader_id not in (self.config.key.id, *peers) and self.known_leader_endpoint():
            peers.append(leader_id)
        return peers[self.chance.randrange(0, len(peers))] if peers else None

    # --- time

    def random_election_deadline(self) -> int:
        """Between one and two election timeouts from now."""
        timeout_ms = self.config.election_timeout_ms
        return self.now_ms + timeout_ms + self.chance.randrange(0, timeout_ms)

    def random_backoff_deadline(self) -> int:
        """Return a deadline after the n-th election lost in a row, in ms of the core's clock.

        It is between `retry_backoff`, in which a winner can announce itself, and `retry_backoff * 2^n`, at most the
        configured maximum.
        """
        self.election_attempts += 1
        least_ms = self.config.retry_backoff_ms
        most_ms = min(self.config.election_backoff_max_ms, least_ms << min(self.election_attempts, 16))
        return self.now_ms + least_ms + self.chance.randrange(0, max(most_ms - least_ms, 0) + 1)

    def fetch_deadline(self) -> int:
        return self.now_ms + self.config.fetch_timeout_ms

    def retry_at(self) -> int:
        return self.now_ms + self.config.retry_backoff_ms
