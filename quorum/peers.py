"""Requests to other replicas: for each, one response or one failure within its deadline.

| request | connection | deadline |
|---|---|---|
| Fetch | one of its own to each peer: it may wait there, and answers come in order | its wait and the request timeout |
| all others | a second one | request timeout |

When a Fetch ends because its connection closed, the peer is probed with a new connection at once. If that is refused,
no process listens there, and the core is notified: its voters need not wait for the fetch timeout, and a killed process
is detected within a round trip. A new connection that succeeds, or a probe without an answer, shows nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Final

from ..limited_log import LimitedLog
from ..protocol import OUTSIDE, ApiKey, ErrorCode, Unanswered
from ..protocol.messages.cluster import ApiVersionsRequest
from ..protocol.net import Address, BrokerUnavailableError, ClientLimits, KafkaClient, connect
from ..security import ClientIdentity
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

_log = LimitedLog(logging.getLogger(__name__))


PeerEvent = ResponseReceived | RequestFailed | ConnectionLost


class Peers:
    """`report` gets the events, one or two for each `send`; `voters` returns those in effect at the end of the log;
    `ended` is called with each task that is done.
    """

    def __init__(
        self,
        *,
        own_id: int,
        random: Random,
        identity: ClientIdentity | None,
        request_timeout_ms: int,
        voters: Callable[[], VotersAt],
        report: Callable[[PeerEvent], None],
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
        self._duplicates: set[Endpoint] = set()
        """The listeners that revealed two nodes with one id; each is logged once."""
        self._fetches = KafkaClient(client_id=client_id, random=random, limits=limits, identity=identity)
        self._others = KafkaClient(client_id=client_id, random=random, limits=limits, identity=identity)
        self.unanswered = Unanswered()
        self._voters = voters
        self._report = report
        self._supervise = ended
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they were begun."""
        self._fetching: asyncio.Task[None] | None = None
        """The last Fetch, and those that follow from its responses."""
        self._next_fetch: Send | None = None

    def send(self, effect: Send) -> None:
        """Begin the request; does not wait.

        A replica awaits one Fetch at a time, so a new one cancels the one before it. A late response would be taken for
        that of the new Fetch, which often asks for the same offset. It would bring on the next request, and that the
        next late response, because a leader answers a replica's parked Fetch when the replica sends another.
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
        """Cancel what is under way; nothing of it is reported."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._fetches.close()
        await self._others.close()

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
        """Send a Fetch, and then each one that the core decides on when it gets the response."""
        await self._ask(effect)
        while self._next_fetch is not None:
            effect, self._next_fetch = self._next_fetch, None
            await self._ask(effect)

    async def _ask(self, effect: Send) -> None:
        request, peer_id = effect.request, effect.peer_id
        if effect.endpoint is None:
            self._report(RequestFailed(peer_id, request, f"it is not known where {peer_id} listens"))
            return
        address = Address(effect.endpoint.host, effect.endpoint.port)
        try:
            response = await self._exchange(address, request)
        except OUTSIDE as error:
            self.unanswered.failed(address, error)
            self._report(RequestFailed(peer_id, request, str(error)))
            is_lost = isinstance(request, FetchRequest) and isinstance(error, BrokerUnavailableError)
            if is_lost and self._next_fetch is None:
                await self._probe(peer_id, effect.endpoint)
            return
        self.unanswered.answered(address)
        self._check_duplicate_id(effect, effect.endpoint, response)
        self._report(ResponseReceived(peer_id, request, response))

    def _check_duplicate_id(self, effect: Send, asked: Endpoint, response: PeerResponse) -> None:
        """Log an error for the operator, who alone knows which of the two nodes is right."""
        if response.error is ErrorCode.none and response.leader.leader_id != self._own_id:
            return
        duplicate = self._duplicate_id(effect, response)
        if duplicate is not None and asked not in self._duplicates:
            self._duplicates.add(asked)
            _log.error(
                asked.host, "%s:%d %s: two nodes must not have the same node.id", asked.host, asked.port, duplicate
            )

    def _duplicate_id(self, effect: Send, response: PeerResponse) -> str | None:
        """Return how the response shows that two nodes have one id, or None.

        The peer rejects the Fetch because this node has its id, or that of another fetcher; or it leads under this
        node's id; or it is not the node that fetches from this one under its id (`identity`).
        """
        error, is_fetch = response.error, isinstance(response, FetchResponse)
        if isinstance(effect.request, BeginQuorumEpochRequest) and error is ErrorCode.invalid_voter_key:
            is_static = self._voters().kraft_version == KRAFT_VERSION_STATIC
            return f"is another node than the one that fetches as voter {effect.peer_id}" if is_static else None
        is_refused = error is ErrorCode.invalid_request and effect.peer_id >= 0  # a bootstrap server may be this node
        if is_refused or (is_fetch and error is ErrorCode.duplicate_voter):
            return f"rejects the requests of node {self._own_id} ({error.name.upper()})"
        if is_fetch and error is ErrorCode.none and response.leader.leader_id == self._own_id:
            return f"leads as node {self._own_id}, which is the id of this node"
        return None

    async def _exchange(self, address: Address, request: PeerRequest) -> PeerResponse:
        if isinstance(request, FetchRequest):
            timeout_s = self._request_timeout_s + request.max_wait_ms / 1000
            body = await self._fetches.send(address, wire_fetch.fetch_request(request), timeout_s=timeout_s)
            return wire_fetch.read_fetch_response(body, self._voters())
        return await self._ask_peer(address, request)

    async def _ask_peer(self, address: Address, request: PeerRequest) -> PeerResponse:
        ask = self._others.send
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
        """Raise BrokerUnavailableError if the peer is too old for this Vote."""
        if needed == 0:
            return
        async with asyncio.timeout(self._request_timeout_s):
            connection = await self._others.connection(address)
        if connection.version_of(ApiKey.VOTE) < needed:
            raise BrokerUnavailableError(f"{address} does not know version {needed} of {ApiKey.VOTE.name}")

    async def _probe(self, peer_id: int, endpoint: Endpoint) -> None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await connect(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            self._report(ConnectionLost(peer_id))
        except OSError as error:
            _log.info(
                endpoint.host,
                "the probe of replica %d at %s:%d showed nothing: %s",
                peer_id,
                endpoint.host,
                endpoint.port,
                error,
            )
        else:
            transport.abort()

    async def kraft_versions(self, endpoint: Endpoint) -> tuple[int, int]:
        """Return the range of `kraft.version` that a node supports; (0, 0) if it does not report one. Raise OSError."""
        address = Address(endpoint.host, endpoint.port)
        request = ApiVersionsRequest(client_software_name="tierfetch", client_software_version="quorum")
        response = await self._others.send(address, request)
        for feature in response.supported_features:
            if feature.name == "kraft.version":
                return feature.min_version, feature.max_version
        return 0, 0
