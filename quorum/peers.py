"""Asks other replicas: one request out, one answer or one failure back, always within a deadline.

| request | connection | deadline |
|---|---|---|
| Fetch | one of its own to each peer: it may wait there, and answers come in order | its wait and the request timeout |
| all others | a second one | request timeout |

When a Fetch ends because its connection closed, the peer is probed with a new connection at once. A refused one means
that nobody listens there any more, and that is told to the core, whose voters then need not wait for the fetch timeout:
a killed process is noticed within a round trip. A connection that can be made again, or a probe without an answer, is
no news.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Final

from ..protocol.api import ApiKey
from ..protocol.errors import OUTSIDE, ErrorCode
from ..protocol.messages.cluster import ApiVersionsRequest
from ..protocol.net.client import Address, BrokerUnavailableError, ClientLimits, KafkaClient
from ..protocol.start_waits import Unanswered
from ..security.client import ClientIdentity
from .core.effects import Send
from .core.events import ConnectionLost, RequestFailed, ResponseReceived
from .core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    PeerRequest,
    PeerResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from .core.state import Endpoint
from .core.voters import KRAFT_VERSION_STATIC, VotersAt
from .wire import fetch as wire_fetch
from .wire import messages as wire

REQUESTS_MAX: Final = 256
"""Under way at once; the core has a handful for each voter."""
PROBE_TIMEOUT_S: Final = 0.5
DIAL_BACKOFF_MIN_S: Final = 0.02
DIAL_BACKOFF_MAX_S: Final = 0.2

_log = logging.getLogger(__name__)


PeerEvent = ResponseReceived | RequestFailed | ConnectionLost


class Peers:
    """`tell` gets the events, one or two for each `send`; `voters` gives those in effect at the end of the log; `ended`
    looks at each task that is done.
    """

    def __init__(
        self,
        *,
        own_id: int,
        random: Random,
        identity: ClientIdentity | None,
        request_timeout_ms: int,
        voters: Callable[[], VotersAt],
        tell: Callable[[PeerEvent], None],
        ended: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._request_timeout_s = request_timeout_ms / 1000
        limits = ClientLimits(
            connect_timeout_s=self._request_timeout_s,
            request_timeout_s=self._request_timeout_s,
            backoff_min_s=DIAL_BACKOFF_MIN_S,
            backoff_max_s=DIAL_BACKOFF_MAX_S,
        )
        client_id = f"tierfetch-quorum-{own_id}"
        self._own_id = own_id
        self._doubles: set[Endpoint] = set()
        """Listeners that told of two nodes with one id; each is said once."""
        self._fetches = KafkaClient(client_id=client_id, random=random, limits=limits, identity=identity)
        self._questions = KafkaClient(client_id=client_id, random=random, limits=limits, identity=identity)
        self.unanswered = Unanswered()
        self._voters = voters
        self._tell = tell
        self._supervise = ended
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they were begun."""
        self._fetching: asyncio.Task[None] | None = None
        """The last Fetch, with all that came of it."""
        self._next_fetch: Send | None = None

    def send(self, effect: Send) -> None:
        """Begin; does not wait.

        A replica awaits one Fetch at a time, so a new one gives up the one before it. Its answer would be taken for
        that of the new one, as they often ask for the same; each late answer would bring on the next request, and that
        the next late answer, for a leader answers the waiting Fetch of who sends another.
        """
        if not isinstance(effect.request, FetchRequest):
            self._spawn(self._ask(effect), f"quorum-{type(effect.request).__name__}-{effect.peer_id}")
        elif self._fetching is not None and self._fetching is asyncio.current_task():
            self._next_fetch = effect
        else:
            if self._fetching is not None:
                self._fetching.cancel()
            self._next_fetch = None
            self._fetching = self._spawn(self._fetch(effect), "quorum-fetch")

    async def close(self) -> None:
        """Give up what is under way: nothing of it is told any more."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._fetches.close()
        await self._questions.close()

    def _spawn(self, coroutine: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        assert len(self._tasks) < REQUESTS_MAX, f"{len(self._tasks)} requests are under way"
        task = asyncio.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._supervise(task)

    async def _fetch(self, effect: Send) -> None:
        """And what the core wants to fetch as soon as it hears of the answer."""
        await self._ask(effect)
        while self._next_fetch is not None:
            effect, self._next_fetch = self._next_fetch, None
            await self._ask(effect)

    async def _ask(self, effect: Send) -> None:
        request, peer_id = effect.request, effect.peer_id
        if effect.endpoint is None:
            self._tell(RequestFailed(peer_id, request, f"it is not known where {peer_id} listens"))
            return
        address = Address(effect.endpoint.host, effect.endpoint.port)
        try:
            response = await self._exchange(address, request)
        except OUTSIDE as error:
            self.unanswered.failed(address, error)
            self._tell(RequestFailed(peer_id, request, str(error)))
            is_lost = isinstance(request, FetchRequest) and isinstance(error, BrokerUnavailableError)
            if is_lost and self._next_fetch is None:
                await self._probe(peer_id, effect.endpoint)
            return
        self.unanswered.answered(address)
        self._look_for_double(effect, effect.endpoint, response)
        self._tell(ResponseReceived(peer_id, request, response))

    def _look_for_double(self, effect: Send, asked: Endpoint, response: PeerResponse) -> None:
        """Only a person can tell which of the two is right."""
        if response.error is ErrorCode.none and response.leader.leader_id != self._own_id:
            return
        told = self._told_of_double(effect, response)
        if told is not None and asked not in self._doubles:
            self._doubles.add(asked)
            _log.error("%s:%d %s: two nodes must not have the same node.id", asked.host, asked.port, told)

    def _told_of_double(self, effect: Send, response: PeerResponse) -> str | None:
        """A node refuses the Fetch of one that is called as it is, or as another one that fetches; it leads under this
        node's id; or it is not who fetches from this node under its id (`identity`)."""
        error, is_fetch = response.error, isinstance(response, FetchResponse)
        if isinstance(effect.request, BeginQuorumEpochRequest) and error is ErrorCode.invalid_voter_key:
            is_static = self._voters().kraft_version == KRAFT_VERSION_STATIC
            return f"is another node than the one that fetches as voter {effect.peer_id}" if is_static else None
        is_refused = error is ErrorCode.invalid_request and effect.peer_id >= 0  # a bootstrap server may be this node
        if is_refused or (is_fetch and error is ErrorCode.duplicate_voter):
            return f"refuses what node {self._own_id} asks ({error.name.upper()})"
        if is_fetch and error is ErrorCode.none and response.leader.leader_id == self._own_id:
            return f"leads as node {self._own_id}, as which this one runs"
        return None

    async def _exchange(self, address: Address, request: PeerRequest) -> PeerResponse:
        if isinstance(request, FetchRequest):
            timeout_s = self._request_timeout_s + request.max_wait_ms / 1000
            body = await self._fetches.send(address, wire_fetch.fetch_request(request), timeout_s=timeout_s)
            return wire_fetch.read_fetch_response(body, self._voters())
        return await self._ask_peer(address, request)

    async def _ask_peer(self, address: Address, request: PeerRequest) -> PeerResponse:
        ask = self._questions.send
        match request:
            case VoteRequest():
                await self._check_version(address, wire.min_version(request))
                return wire.read_vote_response(await ask(address, wire.vote_request(request)))
            case BeginQuorumEpochRequest():
                return wire.read_begin_response(await ask(address, wire.begin_request(request)))
            case EndQuorumEpochRequest():
                return wire.read_end_response(await ask(address, wire.end_request(request)))
            case UpdateVoterRequest():
                return wire.read_update_response(await ask(address, wire.update_request(request)))
            case AddVoterRequest():
                return wire.read_change_response(await ask(address, wire.add_request(request)))
            case RemoveVoterRequest():
                return wire.read_change_response(await ask(address, wire.remove_request(request)))
            case FetchSnapshotRequest():
                body = await ask(address, wire_fetch.fetch_snapshot_request(request))
                return wire_fetch.read_fetch_snapshot_response(body)
        raise AssertionError(request)

    async def _check_version(self, address: Address, needed: int) -> None:
        """BrokerUnavailableError if the peer is too old for this Vote."""
        if needed == 0:
            return
        async with asyncio.timeout(self._request_timeout_s):
            connection = await self._questions.connection(address)
        if connection.version_of(ApiKey.VOTE) < needed:
            raise BrokerUnavailableError(f"{address} does not know version {needed} of {ApiKey.VOTE.name}")

    async def _probe(self, peer_id: int, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await loop.create_connection(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            self._tell(ConnectionLost(peer_id))
        except OSError as error:
            _log.info("the probe of %d at %s:%d told nothing: %s", peer_id, endpoint.host, endpoint.port, error)
        else:
            transport.abort()

    async def kraft_versions(self, endpoint: Endpoint) -> tuple[int, int]:
        """The range of `kraft.version` that a node says it supports; (0, 0) if it says nothing of it. OSError."""
        address = Address(endpoint.host, endpoint.port)
        request = ApiVersionsRequest(client_software_name="tierfetch", client_software_version="quorum")
        response = await self._questions.send(address, request)
        for feature in response.supported_features:
            if feature.name == "kraft.version":
                return feature.min_version, feature.max_version
        return 0, 0
