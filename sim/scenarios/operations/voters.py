"""The rows of the grammar of quorums: their voters change while faults run (KIP-853).

| row                 | what is done                                               | judged by                         |
|---------------------|------------------------------------------------------------|-----------------------------------|
| add voter           | AddRaftVoter of a controller that runs and has no vote     | `judges.core.quorum.voters`;      |
|                     |                                                            | `VoterOperator.anomalies`         |
| remove voter        | RemoveRaftVoter, of the leader as of any other             | the same                          |
| move voter          | a controller is restarted, and listens at another port;    | every replica knows it there in   |
|                     | it says so itself (UpdateRaftVoter)                        | the end (`VoterOperator.strayed`) |
| wipe voter          | a voter gets an empty disk: it comes back without a vote,  | all judges of the quorum: of the  |
|                     | and the vote of its old directory waits for its removal    | old directory nothing counts      |
| raise kraft.version | of a quorum whose voters were configured                   | `judges.core.quorum.voters`       |

`VOTERS_MIN` are left. A disk is lost (of `Disks.may_lose` only) where that is known to leave a majority under any next
leader: every controller runs; none knows a newer epoch than the leader; the leader has committed in its own epoch, its
voters, too; there are three of them, none is lost, and no removal is in doubt. The lost voter is removed before others.

A voter that listens elsewhere than the voters in the log say cannot be asked for its vote: one is moved at a time,
where two others are left that all can reach, and none is removed until the log knows. (Of two voters the other one may
have the longer log, and then neither can win.) A leader's epoch begins with where it listens. With auto-join
controllers add themselves again once they were removed; one with a new disk first takes the vote of its old one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import OUTSIDE, ErrorCode
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.quorum import AddRaftVoterRequest, AddRaftVoterRequestListener, RemoveRaftVoterRequest
from ....protocol.net import Address, KafkaClient
from ....quorum import QuorumNode, ReplicaKey, VoterSet
from ...judges.core.acknowledged_writes import Anomaly
from ...judges.core.events import OperatorEvent, VoterAddAnswered, VoterAddAsked
from .grammar import Row

VOTERS_MIN: Final = 2
MOVED_OF_MIN: Final = 3
TIMEOUT_S: Final = 4.0
CATCH_UP_MS: Final = 3_000
ATTEMPTS: Final = 4
RETRY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Disks:
    """The disks of voters: the hosts that `may_lose` theirs, which of a replica `is_lost`, and what does it."""

    may_lose: Sequence[str] = ()
    is_lost: Callable[[ReplicaKey], bool] = lambda _: False
    wipe: Callable[[str], None] = lambda _: None


class VoterOperator:
    """Changes voters. `controllers` are ids by host; `replica_of` gives what runs there, `leader` host and replica of
    who leads; `port_of` says where a host listens, `move` restarts it elsewhere, `upgrade` raises kraft.version.
    """

    def __init__(
        self,
        controllers: Mapping[str, int],
        replica_of: Callable[[str], QuorumNode | None],
        leader: Callable[[], tuple[str, QuorumNode] | None],
        rng: Random,
        *,
        port_of: Callable[[str], int],
        move: Callable[[str], Awaitable[None]],
        upgrade: Callable[[], Awaitable[bool]],
        publish: Callable[[OperatorEvent], None],
        record: Callable[[str, str], None],
        disks: Disks | None = None,
    ) -> None:
        self._disks = disks or Disks()
        self._hosts = {node_id: host for host, node_id in controllers.items()}
        self._replica_of = replica_of
        self._leader = leader
        self._port_of = port_of
        self._move = move
        self._upgrade = upgrade
        self._publish = publish
        self._record = record
        self._client = KafkaClient(client_id="changes-voters", random=rng)
        self._wanted: dict[int, bool] = {}
        """Whether a controller is a voter, as acknowledged last; absent where that is not known."""
        self._is_in_doubt = False
        """Whether a removal had no answer: it may still be carried out."""
        self.changed: Counter[str] = Counter()

    # -- what is possible ---------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voters that the leader goes by; none without a leader."""
        found = self._leader()
        return VoterSet() if found is None else found[1].status.voters.voters

    @property
    def is_dynamic(self) -> bool:
        """Whether the leader's kraft.version allows changes."""
        found = self._leader()
        return found is not None and found[1].status.voters.kraft_version > 0

    @property
    def candidates(self) -> list[str]:
        """The hosts of controllers that run and have no vote."""
        known = self.voters.by_id
        running = [host for node_id, host in self._hosts.items() if node_id not in known and self._replica_of(host)]
        return running if self.is_dynamic else []

    @property
    def elsewhere(self) -> list[str]:
        """The hosts of voters that listen elsewhere than the leader's voters say."""
        known = {self._hosts[node.id]: node.endpoint for node in self.voters}
        return [host for host, at in known.items() if at is None or at.port != self._port_of(host)]

    @property
    def lost(self) -> list[ReplicaKey]:
        """The voters whose disk is no longer there."""
        return [node.key for node in self.voters if self._disks.is_lost(node.key)]

    @property
    def may_remove(self) -> bool:
        """Whether those that are left can reach each other."""
        is_sure = not self.changed["voters wiped"] or self._is_settled
        return self.is_dynamic and len(self.voters) > VOTERS_MIN and not self.elsewhere and is_sure

    @property
    def may_move(self) -> bool:
        """Whether the others are a majority that can reach each other."""
        has_others = len(self.voters) >= MOVED_OF_MIN and not (self.elsewhere or self.lost)
        return self.is_dynamic and has_others

    @property
    def expendable(self) -> list[str]:
        """The hosts of voters that may lose their disks now."""
        has_others = self.is_dynamic and self._is_settled and len(self.voters) >= MOVED_OF_MIN
        if not has_others or self._is_in_doubt or self.elsewhere or self.lost:
            return []
        voters = [self._hosts[node.id] for node in self.voters]
        return [host for host in voters if host in self._disks.may_lose]

    @property
    def _is_settled(self) -> bool:
        """Whether the leader's voters are those that the next leader will have, too."""
        replicas, found = [self._replica_of(host) for host in self._hosts.values()], self._leader()
        if found is None:
            return False
        status, epochs = found[1].status, found[1].log.epochs
        epoch, end = status.leader_and_epoch.epoch, status.high_watermark
        is_newest = all(each is not None and each.status.leader_and_epoch.epoch <= epoch for each in replicas)
        return is_newest and status.voters.offset < end and epochs.epoch_for_offset(end - 1) == epoch

    def strayed(self, replicas: Mapping[str, QuorumNode]) -> list[tuple[str, str]]:
        """Return which of these replicas, by host, go by other voters than the leader, and which of its voters listens
        elsewhere than it knows; nothing without a leader.
        """
        if self._leader() is None:
            return []
        voters = self.voters
        others = [
            (host, f"goes by {replica.status.voters}, the leader by {voters}")
            for host, replica in replicas.items()
            if replica.status.voters.voters != voters
        ]
        moved = [(host, f"listens at {self._port_of(host)}, the leader goes by {voters}") for host in self.elsewhere]
        return others + moved

    # -- the rows -----------------------------------------------------------------------------------------------------

    async def add(self, rng: Random) -> None:
        """Have a controller become a voter."""
        host = rng.choice(self.candidates)
        replica = self._replica_of(host)
        assert replica is not None, host
        key, endpoint = replica.config.key, replica.config.endpoints[0]
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=CATCH_UP_MS,
            voter_id=key.id,
            voter_directory_id=key.directory_id,
            listeners=(AddRaftVoterRequestListener(name=endpoint.name, host=endpoint.host, port=endpoint.port),),
        )
        self._wanted.pop(key.id, None)
        self._publish(VoterAddAsked(key.id))
        answer = await self._ask(request)
        if answer is not None:
            self._publish(VoterAddAnswered(key.id))
        code = None if answer is None else answer.error_code
        self._settle(key, code, ErrorCode.duplicate_voter, is_voter=True)

    async def remove(self, rng: Random) -> None:
        """Take the vote of a controller, of a lost one first."""
        key = rng.choice(self.lost or [node.key for node in self.voters])
        self._wanted.pop(key.id, None)
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)
        was_in_doubt, self._is_in_doubt = self._is_in_doubt, True
        answer = await self._ask(request)
        code = None if answer is None else answer.error_code
        self._is_in_doubt = was_in_doubt or code not in (ErrorCode.none, ErrorCode.voter_not_found)
        self._settle(key, code, ErrorCode.voter_not_found, is_voter=False)

    def _settle(self, key: ReplicaKey, code: ErrorCode | None, is_so: ErrorCode, *, is_voter: bool) -> None:
        """What an answer says of a voter. `is_so`: it was so before; no answer, or none in time: nothing."""
        what = f"voters {'added' if is_voter else 'removed'}"
        self._record("operations", f"{what}: {key.id}: {'no answer' if code is None else code.name}")
        self.changed[what] += code is ErrorCode.none
        if code in (ErrorCode.none, is_so):
            self._wanted[key.id] = is_voter

    async def move(self, rng: Random) -> None:
        """Have a controller listen elsewhere."""
        await self._move(rng.choice(list(self._hosts.values())))
        self.changed["controllers moved"] += 1

    async def wipe(self, rng: Random) -> None:
        """Have a voter lose its disk."""
        self._disks.wipe(rng.choice(self.expendable))
        self.changed["voters wiped"] += 1

    async def raise_version(self) -> None:
        self.changed["kraft.version raised"] += await self._upgrade()

    async def _ask(self, request: Request[ResponseT]) -> ResponseT | None:
        """Return the answer of who leads; None if there is none. One that no longer leads is not believed."""
        answer: ResponseT | None = None
        for _ in range(ATTEMPTS):
            found = self._leader()
            if found is not None:
                at = found[1].config.endpoints[0]
                try:
                    answer = await self._client.send(Address(at.host, at.port), request, timeout_s=TIMEOUT_S)
                except OUTSIDE:
                    return None
                if getattr(answer, "error_code", None) is not ErrorCode.not_leader_or_follower:
                    return answer
            await asyncio.sleep(RETRY_S)
        return answer

    async def close(self) -> None:
        await self._client.close()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def anomalies(self, partition: str, *, joins_by_itself: bool) -> list[Anomaly]:
        """Acknowledged changes that are not there, once everything is at rest."""
        there = self.voters.by_id
        return [
            Anomaly(
                "lost voter change", partition, f"{node_id}: {'added' if wanted else 'removed'}, of {sorted(there)}"
            )
            for node_id, wanted in sorted(self._wanted.items())
            if (node_id in there) != wanted and (wanted or not joins_by_itself)
        ]


VOTER_ROWS: Final[Sequence[Row[VoterOperator]]] = (
    Row(
        name="add voter",
        weight=4,
        is_possible=lambda crew: bool(crew.candidates),
        act=lambda crew, rng: crew.add(rng),
    ),
    Row(
        name="remove voter",
        weight=3,
        is_possible=lambda crew: crew.may_remove,
        act=lambda crew, rng: crew.remove(rng),
    ),
    Row(
        name="move voter",
        is_possible=lambda crew: crew.may_move,
        act=lambda crew, rng: crew.move(rng),
    ),
    Row(
        name="wipe voter",
        weight=2,
        is_possible=lambda crew: bool(crew.expendable),
        act=lambda crew, rng: crew.wipe(rng),
    ),
    Row(
        name="raise kraft.version",
        weight=8,
        is_possible=lambda crew: bool(crew.voters.nodes) and not crew.is_dynamic,
        act=lambda crew, _: crew.raise_version(),
    ),
)
