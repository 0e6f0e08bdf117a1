"""The rows of the grammar of quorums: their voters change while faults run (KIP-853).

| row                 | what is done                                               | judged by                         |
|---------------------|------------------------------------------------------------|-----------------------------------|
| add voter           | AddRaftVoter of a controller that runs and has no vote     | `judges.core.quorum.voters`;      |
|                     |                                                            | `VoterOperator.anomalies`         |
| remove voter        | RemoveRaftVoter, of the leader as of any other             | the same                          |
| move voter          | a controller is restarted, and listens at another port;    | every replica knows it there in   |
|                     | it says so itself (UpdateRaftVoter)                        | the end (`QuorumScenario`)        |
| raise kraft.version | of a quorum whose voters were configured                   | `judges.core.quorum.voters`       |

`VOTERS_MIN` are left. A voter that listens elsewhere than the voters in the log say cannot be asked for its vote: one
is moved at a time, where two others are left that all can reach, and none is removed until the log knows. (Of two
voters the other one may have the longer log, and then neither can win.) A leader's epoch begins with where it listens.
Controllers with auto-join add themselves again once they were removed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final

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
    ) -> None:
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
    def may_remove(self) -> bool:
        """Whether those that are left can reach each other."""
        return self.is_dynamic and len(self.voters) > VOTERS_MIN and not self.elsewhere

    @property
    def may_move(self) -> bool:
        """Whether the others are a majority that can reach each other."""
        return self.is_dynamic and len(self.voters) >= MOVED_OF_MIN and not self.elsewhere

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
        """Take the vote of a controller."""
        key = rng.choice(list(self.voters)).key
        self._wanted.pop(key.id, None)
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)
        answer = await self._ask(request)
        code = None if answer is None else answer.error_code
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
        name="raise kraft.version",
        weight=8,
        is_possible=lambda crew: bool(crew.voters.nodes) and not crew.is_dynamic,
        act=lambda crew, _: crew.raise_version(),
    ),
)
