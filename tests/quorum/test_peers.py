"""Requests to other replicas: one answer or one failure each, and what a closed socket tells."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tierfetch.cli.local.processes import free_ports
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.net.dispatch import Handler
from tierfetch.protocol.net.server import Server
from tierfetch.quorum.core.effects import Send
from tierfetch.quorum.core.events import ConnectionLost, RequestFailed, ResponseReceived
from tierfetch.quorum.core.messages import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from tierfetch.quorum.core.state import Endpoint, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VotersAt, VoterSet
from tierfetch.quorum.handlers import api_versions_handler
from tierfetch.quorum.peers import Peers
from tierfetch.quorum.wire import fetch as wire_fetch
from tierfetch.quorum.wire import messages as wire

PEER = 2
FETCH = FetchRequest(cluster_id=None, replica=ReplicaKey(1), epoch=1, fetch_offset=0, last_fetched_epoch=0)
VOTE = VoteRequest(
    cluster_id=None, candidate=ReplicaKey(1), epoch=3, last=OffsetAndEpoch(0, 0), pre_vote=False, voter=ReplicaKey(PEER)
)
GRANTED = VoteResponse(error=ErrorCode.none, leader=LeaderAndEpoch(None, 3), granted=True)


class Told:
    """The events, in order."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()

    def __call__(self, event: Any) -> None:
        self.events.put_nowait(event)

    async def next(self) -> Any:
        async with asyncio.timeout(5):
            return await self.events.get()


@asynccontextmanager
async def peers_of(told: Callable[[Any], None], request_timeout_ms: int = 2000) -> AsyncIterator[Peers]:
    broken: list[asyncio.Task[None]] = []
    peers = Peers(
        own_id=1,
        random=random.Random(1),
        identity=None,
        request_timeout_ms=request_timeout_ms,
        voters=lambda: VotersAt(-1, VoterSet(), 0),
        report=told,
        ended=lambda task: broken.append(task) if not task.cancelled() and task.exception() else None,
    )
    yield peers
    await peers.close()
    assert not broken, broken[0]


@asynccontextmanager
async def peer(handlers: dict[int, Handler]) -> AsyncIterator[tuple[Server, Endpoint]]:
    table = dict(handlers)
    table[ApiKey.API_VERSIONS] = api_versions_handler(lambda: frozenset(table))
    server = Server(table, listener_name="CONTROLLER")
    await server.start("127.0.0.1", 0)
    yield server, Endpoint("CONTROLLER", "127.0.0.1", server.port)
    await server.close(deadline_s=0)


async def grant(context: Any, body: Any) -> Any:
    return wire.vote_response(GRANTED)


class Never:
    """A handler that never answers; `began` when it is asked."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def __call__(self, context: Any, body: Any) -> Any:
        self.began.set()
        await asyncio.Event().wait()


async def test_an_answer() -> None:
    told = Told()
    async with peer({ApiKey.VOTE: grant}) as (_, endpoint), peers_of(told) as peers:
        peers.send(Send(PEER, endpoint, VOTE))
        assert await told.next() == ResponseReceived(PEER, VOTE, GRANTED)


async def test_it_is_not_known_where_the_peer_listens() -> None:
    told = Told()
    async with peers_of(told) as peers:
        peers.send(Send(PEER, None, VOTE))
        assert await told.next() == RequestFailed(PEER, VOTE)


async def test_a_vote_to_nobody_fails_and_says_no_more() -> None:
    told = Told()
    (port,) = free_ports(1)
    async with peers_of(told) as peers:
        peers.send(Send(PEER, Endpoint("C", "127.0.0.1", port), VOTE))
        assert await told.next() == RequestFailed(PEER, VOTE)
        assert told.events.empty()


async def test_no_answer_in_time() -> None:
    told = Told()
    async with peer({ApiKey.VOTE: Never()}) as (_, endpoint), peers_of(told, request_timeout_ms=50) as peers:
        peers.send(Send(PEER, endpoint, VOTE))
        assert await told.next() == RequestFailed(PEER, VOTE)


async def test_a_waiting_fetch_holds_up_no_vote() -> None:
    told = Told()
    async with peer({ApiKey.VOTE: grant, ApiKey.FETCH: Never()}) as (_, endpoint), peers_of(told) as peers:
        peers.send(Send(PEER, endpoint, FETCH))
        peers.send(Send(PEER, endpoint, VOTE))
        assert await told.next() == ResponseReceived(PEER, VOTE, GRANTED)


async def test_a_fetch_follows_in_the_task_that_has_heard_the_answer() -> None:
    tasks: list[asyncio.Task[Any] | None] = []
    done = asyncio.Event()
    served = FetchResponse(error=ErrorCode.none, leader=LeaderAndEpoch(PEER, 1), high_watermark=0, log_start_offset=0)

    async def serve(context: Any, body: Any) -> Any:
        return wire_fetch.fetch_response(body, served, b"")

    def tell(event: Any) -> None:
        assert event == ResponseReceived(PEER, FETCH, served)
        tasks.append(asyncio.current_task())
        if len(tasks) < 3:
            peers.send(Send(PEER, endpoint, FETCH))
        else:
            done.set()

    async with peer({ApiKey.FETCH: serve}) as (_, endpoint), peers_of(tell) as peers:
        peers.send(Send(PEER, endpoint, FETCH))
        async with asyncio.timeout(5):
            await done.wait()
    assert tasks == [tasks[0]] * 3


async def test_Q8_a_leader_that_is_gone_is_noticed_at_once() -> None:
    told, asked = Told(), Never()
    async with peer({ApiKey.FETCH: asked}) as (server, endpoint), peers_of(told) as peers:
        peers.send(Send(PEER, endpoint, FETCH))
        await asked.began.wait()
        await server.close(deadline_s=0)
        assert await told.next() == RequestFailed(PEER, FETCH)
        assert await told.next() == ConnectionLost(PEER)


async def test_Q8_a_connection_that_can_be_made_again_is_no_news() -> None:
    told, asked = Told(), Never()
    async with peer({ApiKey.FETCH: asked}) as (server, endpoint), peers_of(told) as peers:
        peers.send(Send(PEER, endpoint, FETCH))
        await asked.began.wait()
        asked.began.clear()
        for connection in list(server.connections):
            connection.abort()
        assert await told.next() == RequestFailed(PEER, FETCH)
        peers.send(Send(PEER, endpoint, FETCH))
        await asked.began.wait()
        assert told.events.empty()


async def test_Q2_a_pre_vote_is_never_sent_as_a_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that knows no pre-vote would take it for a real one."""
    told = Told()
    asked = []

    async def old(context: Any, body: Any) -> Any:
        asked.append(body)
        return wire.vote_response(GRANTED)

    async with peer({ApiKey.VOTE: old}) as (_, endpoint), peers_of(told) as peers:
        pre_vote = VoteRequest(
            cluster_id=None, candidate=ReplicaKey(1), epoch=3, last=OffsetAndEpoch(0, 0), pre_vote=True
        )
        monkeypatch.setattr(wire, "PRE_VOTE_SINCE", 3)
        peers.send(Send(PEER, endpoint, pre_vote))
        assert await told.next() == RequestFailed(PEER, pre_vote)
        assert asked == []


async def test_Q15_the_kraft_versions_of_a_node() -> None:
    told = Told()
    async with peer({}) as (_, endpoint), peers_of(told) as peers:
        assert await peers.kraft_versions(endpoint) == (0, 1)


async def test_closing_gives_up_what_is_under_way() -> None:
    told, asked = Told(), Never()
    async with peer({ApiKey.VOTE: asked}) as (_, endpoint), peers_of(told) as peers:
        peers.send(Send(PEER, endpoint, VOTE))
        await asked.began.wait()
    assert told.events.empty()
