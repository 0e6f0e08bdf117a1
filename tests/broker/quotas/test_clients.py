"""Quotas at work on requests: what is told, who is muted, who is exempt (KIP-13, KIP-124, KIP-219, KIP-612)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tierfetch.broker.quotas import metrics as metrics_module
from tierfetch.broker.quotas.clients import BrokerQuotas, Processing, has_throttle_time
from tierfetch.broker.quotas.metrics import quota_families
from tierfetch.controller.image.client_quotas import ClientQuotas, entity_of
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization.whole import markers_denied
from tierfetch.protocol.fetch.messages import FetchRequest, FetchResponse
from tierfetch.protocol.messages.cluster import ApiVersionsResponse
from tierfetch.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tierfetch.protocol.messages.producers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tierfetch.protocol.messages.quorum import DescribeQuorumResponse
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.produce import ProduceResponse
from tierfetch.security import ANONYMOUS, SecurityProtocol
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.protocol.wire_fakes import produce, raw_peer, serving, until
from tierfetch.tests.turns import turns

pytestmark = pytest.mark.virtual_time

PRODUCED = ProduceResponse(topics=())
FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
MARKERS = WriteTxnMarkersRequest(markers=())
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Clients:
    """Requests of clients to handlers that answer at once; `muted` has for how long each was muted."""

    def __init__(self, **values: Any) -> None:
        self.quotas = ClientQuotas()
        self.clock_s = 0.0
        self.broker = BrokerQuotas(lambda: self.quotas, samples=11, window_s=1, clock_s=lambda: self.clock_s, **values)
        self.muted: list[float] = []
        self.work_s = 0.0
        self.answers: dict[ApiKey, Any] = {
            ApiKey.PRODUCE: PRODUCED,
            ApiKey.FETCH: FetchResponse(()),
            ApiKey.HEARTBEAT: HeartbeatResponse(),
            ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersResponse(markers=()),
            ApiKey.DESCRIBE_QUORUM: DescribeQuorumResponse(topics=(), nodes=()),
            ApiKey.API_VERSIONS: ApiVersionsResponse(api_keys=()),
        }

        async def handle(context: RequestContext, request: Any) -> Any:
            self.clock_s += self.work_s
            return None if request is None else self.answers[context.api]

        self.handlers = self.broker.limited(dict.fromkeys(self.answers, handle))

    def limit(self, key: str, value: float, **parts: str | None) -> None:
        self.quotas.put(entity_of((kind.replace("_", "-"), name) for kind, name in parts.items()), key, value)

    def context(
        self, api: ApiKey, size: int = 0, user: str = "alice", client_id: str | None = "app", listener: str = "CLIENTS"
    ) -> RequestContext:
        return replace(
            context_of(api, api.max_version),
            principal=KafkaPrincipal("User", user),
            client_id=client_id,
            listener=listener,
            request_bytes=size,
            mute=self.muted.append,
        )

    async def ask(self, api: ApiKey, request: Any, size: int = 0, **who: Any) -> int:
        """Return the throttle time of the response."""
        response = await self.handlers[api](self.context(api, size, **who), request)
        wait_ms: int = -1 if response is None else response.throttle_time_ms
        return wait_ms

    async def send(self, api: ApiKey, **values: Any) -> list[float]:
        """Send a request that takes a second of the event loop. Return for how long its connection is muted."""
        self.work_s, before = 1.0, len(self.muted)
        response = await self.handlers[api](replace(self.context(api), **values), MARKERS)
        assert response == self.answers[api]
        return self.muted[before:]

    def exempt_rate(self) -> float:
        """Return the metric."""
        return samples(quota_families(self.broker))["tierfetch_quota_exempt_rate", ""]


async def test_a_producer_above_its_rate_is_told_to_wait_and_muted_as_long() -> None:
    clients = Clients()
    clients.limit("producer_byte_rate", 1000, user="alice")
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 10_000) == 0
    assert clients.muted == []
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 5_000) == 5_000
    assert clients.muted == [5.0]
    await asyncio.sleep(30)
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 10_000) == 0


async def test_a_producer_without_acks_is_muted_though_nothing_is_answered() -> None:
    clients = Clients()
    clients.limit("producer_byte_rate", 1000, user="alice")
    assert await clients.ask(ApiKey.PRODUCE, None, 20_000) == -1
    assert clients.muted == [10.0]


async def test_who_shares_a_quota_is_throttled_together() -> None:
    clients = Clients()
    clients.limit("producer_byte_rate", 1000, user=None)
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 8_000, client_id="one") == 0
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 8_000, client_id="two") == 6_000
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 8_000, user="bob") == 0


async def test_a_change_of_a_quota_holds_from_the_next_request_on() -> None:
    clients = Clients()
    clients.limit("producer_byte_rate", 10**6, client_id="app")
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 20_000) == 0
    clients.limit("producer_byte_rate", 1000, client_id="app")
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 0) == 10_000
    clients.quotas.remove(entity_of([("client-id", "app")]), "producer_byte_rate")
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 20_000) == 0


async def test_a_client_without_an_id_has_the_quotas_of_its_user() -> None:
    clients = Clients()
    clients.limit("producer_byte_rate", 1000, user="alice")
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 11_000, client_id=None) == 1_000


async def test_a_consumer_is_told_how_much_it_may_have_and_what_it_was_not_sent_does_not_count() -> None:
    clients = Clients()
    clients.limit("consumer_byte_rate", 1000, user="alice")
    context = clients.context(ApiKey.FETCH)
    assert clients.broker.fetch_bytes_max(context) == 10_000
    assert clients.broker.throttle_fetch(context, 10_000) == 0
    assert clients.broker.throttle_fetch(context, 10_000) == 10_000
    assert clients.broker.throttle_fetch(context, 1_000) == 1_000
    assert clients.broker.fetch_bytes_max(clients.context(ApiKey.FETCH, user="bob")) is None
    assert clients.broker.throttle_fetch(clients.context(ApiKey.FETCH, user="bob"), 10**9) == 0


async def test_a_batch_above_the_bound_is_sent_when_nothing_was_sent_lately() -> None:
    clients = Clients()
    clients.limit("consumer_byte_rate", 1000, user="alice")
    context = clients.context(ApiKey.FETCH)
    sent_s: list[float] = []
    while len(sent_s) < 3:
        wait_ms = clients.broker.throttle_fetch(context, 50_000)
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        else:
            sent_s.append(asyncio.get_running_loop().time())
    assert all(later - earlier >= 11 for earlier, later in pairwise(sent_s))


async def test_replicas_and_the_listener_of_brokers_are_exempt() -> None:
    clients = Clients(broker_listener="BROKERS")
    clients.limit("producer_byte_rate", 1, user=None)
    clients.limit("request_percentage", 1, user=None)
    clients.work_s = 10.0
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 10**6, listener="BROKERS") == 0
    assert await clients.ask(ApiKey.FETCH, replace(FETCH, replica_id=2)) == 0
    assert clients.muted == []
    assert await clients.ask(ApiKey.PRODUCE, produce(b""), 10**6) > 0


async def test_KIP_124_the_time_of_exempt_requests_has_a_rate_while_a_client_has_a_quota_of_time() -> None:
    clients = Clients(broker_listener="BROKERS")
    clients.work_s = 10.0
    clients.limit("producer_byte_rate", 10**9, user=None)
    await clients.ask(ApiKey.FETCH, replace(FETCH, replica_id=2))
    assert clients.exempt_rate() == 0, "nothing is measured as long as no client has a request_percentage"
    clients.limit("request_percentage", 10**6, user="bob")
    await clients.ask(ApiKey.FETCH, replace(FETCH, replica_id=2))
    await clients.ask(ApiKey.FETCH, FETCH, listener="BROKERS")
    await clients.ask(ApiKey.FETCH, FETCH)
    assert clients.exempt_rate() == 2 * 10.0 * 100 / 10
    clients.quotas.remove(entity_of([("user", "bob")]), "request_percentage")
    await clients.ask(ApiKey.FETCH, replace(FETCH, replica_id=2))
    assert clients.exempt_rate() == 200.0


async def test_KIP_124_a_cluster_action_is_exempt_unless_the_authorizer_denied_it() -> None:
    clients = Clients()
    clients.limit("request_percentage", 1, user=None)
    assert [await clients.send(ApiKey.WRITE_TXN_MARKERS) for _ in range(3)] == [[], [], []]
    assert clients.exempt_rate() == 30.0
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
        coordinator_epoch=0,
    )
    clients.answers[ApiKey.WRITE_TXN_MARKERS] = markers_denied(WriteTxnMarkersRequest(markers=(marker,)))
    assert await clients.send(ApiKey.WRITE_TXN_MARKERS) == [1.0]
    assert clients.exempt_rate() == 30.0


async def test_KIP_219_a_client_is_muted_for_a_response_that_cannot_say_it() -> None:
    clients = Clients()
    clients.limit("request_percentage", 1, user=None)
    assert await clients.send(ApiKey.DESCRIBE_QUORUM) == [1.0]


async def test_ApiVersions_counts_for_a_client_and_not_before_it_has_authenticated() -> None:
    clients = Clients()
    clients.limit("request_percentage", 1, user=None)
    secured = SecurityProtocol.SASL_SSL
    assert await clients.send(ApiKey.API_VERSIONS, principal=ANONYMOUS, security_protocol=secured) == []
    clients.answers[ApiKey.API_VERSIONS] = ApiVersionsResponse(api_keys=(), throttle_time_ms=1_000)
    assert await clients.send(ApiKey.API_VERSIONS, security_protocol=secured) == [1.0]
    assert await clients.send(ApiKey.API_VERSIONS, principal=ANONYMOUS) == [1.0]


async def test_time_on_the_event_loop_counts_for_every_api_and_is_waited_for_one_window_at_most() -> None:
    clients = Clients()
    clients.limit("request_percentage", 10, user="alice")
    clients.work_s = 1.0
    assert await clients.ask(ApiKey.HEARTBEAT, HEARTBEAT) == 0
    clients.work_s = 0.01
    assert await clients.ask(ApiKey.HEARTBEAT, HEARTBEAT) == 100
    clients.work_s = 60.0
    assert await clients.ask(ApiKey.HEARTBEAT, HEARTBEAT) == 1_000
    assert clients.muted == [0.1, 1.0]


async def test_a_throttle_time_of_the_controller_mutes_as_well() -> None:
    clients = Clients()

    async def forwarded(*_: object) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=700)

    (handler,) = clients.broker.limited({ApiKey.HEARTBEAT: forwarded}).values()
    response = await handler(clients.context(ApiKey.HEARTBEAT), HEARTBEAT)
    assert (response.throttle_time_ms, clients.muted) == (700, [0.7])


async def test_apis_that_cannot_say_it_are_known() -> None:
    assert has_throttle_time(ApiKey.METADATA)
    assert has_throttle_time(ApiKey.API_VERSIONS)
    assert not has_throttle_time(ApiKey.SASL_HANDSHAKE)


async def test_an_address_makes_so_many_connections_a_second() -> None:
    clients = Clients()
    clients.limit("connection_creation_rate", 2, ip="10.0.0.1")
    accepted = [clients.broker.accept("10.0.0.1") is None for _ in range(30)]
    assert accepted == [True] * 20 + [False] * 10
    assert clients.broker.refused_connections == 10
    assert clients.broker.accept("10.0.0.2") is None
    await asyncio.sleep(20)
    assert clients.broker.accept("10.0.0.1") is None


# What a coroutine takes of the event loop.


async def test_processing_counts_steps_and_not_what_is_waited_for() -> None:
    now_s = 0.0

    async def work() -> str:
        nonlocal now_s
        now_s += 1
        await asyncio.sleep(100)
        now_s += 2
        return "done"

    processing = Processing(work(), lambda: now_s + asyncio.get_running_loop().time() * 0)
    assert await processing == "done"
    assert processing.spent_s == 3.0


async def test_processing_hands_on_errors_and_cancellation() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await Processing(fail(), lambda: 0.0)
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def metered() -> None:
        await Processing(wait(), lambda: 0.0)

    task = asyncio.create_task(metered())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]


# Connections that are muted.


@pytest.mark.virtual_time(False)
async def test_KIP_219_a_muted_connection_is_answered_at_once_and_read_later() -> None:
    begun: list[float] = []
    now_s = asyncio.get_running_loop().time

    async def handle(context: RequestContext, request: Any) -> ProduceResponse:
        begun.append(now_s())
        if len(begun) == 1:
            context.mute(0.3)
            context.mute(0.1)
        return ProduceResponse(topics=(), throttle_time_ms=300)

    async with serving({ApiKey.PRODUCE: handle}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.PRODUCE, 9, 1, produce(b"a"))
        _, first = await peer.response(ApiKey.PRODUCE, 9)
        (connection,) = server.connections
        assert connection.is_muted, "the answer has left, and the time is not over"
        peer.send(ApiKey.PRODUCE, 9, 2, produce(bytes(300_000)))
        number, _ = await peer.response(ApiKey.PRODUCE, 9)
    assert (first.throttle_time_ms, number) == (300, 2)
    assert begun[1] - begun[0] >= 0.299


@pytest.mark.virtual_time(False)
async def test_a_muted_connection_is_not_closed_for_what_it_was_not_let_send() -> None:
    async def handle(context: RequestContext, request: Any) -> ProduceResponse:
        if not context.request_bytes > 1_000:
            context.mute(60.0)
        return PRODUCED

    async with serving({ApiKey.PRODUCE: handle}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.PRODUCE, 9, 1, produce(b"a"))
        peer.send(ApiKey.PRODUCE, 9, 2, produce(bytes(4_000_000)))
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 1
        (connection,) = server.connections
        await turns()
        for later_s in (30.0, 59.0):
            connection.expire(asyncio.get_running_loop().time() + later_s)
        connection.unmute()
        connection.expire(asyncio.get_running_loop().time())
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 2


@pytest.mark.virtual_time(False)
async def test_a_connection_that_ends_while_it_is_muted_leaves_nothing() -> None:
    async def handle(context: RequestContext, request: Any) -> ProduceResponse:
        context.mute(3_600.0)
        return PRODUCED

    async with serving({ApiKey.PRODUCE: handle}) as server:
        async with raw_peer(server.port) as peer:
            peer.send(ApiKey.PRODUCE, 9, 1, produce(b"a"))
            await peer.response(ApiKey.PRODUCE, 9)
        await until(lambda: not server.connections)
        await turns()


# Metrics.


def samples(families: Iterable[Any]) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("user", "") + sample.labels.get("client_id", "")): sample.value
        for family in families
        for sample in family.samples
    }


async def test_metrics_show_rates_and_waits_of_the_most_recently_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "CLIENTS_MAX", 2)
    clients = Clients()
    clients.limit("producer_byte_rate", 1000, user=None)
    for user in ("a", "b", "c"):
        await clients.ask(ApiKey.PRODUCE, produce(b""), 20_000, user=user)
    assert samples(quota_families(clients.broker)) == {
        ("tierfetch_quota_rate", "b"): 2_000.0,
        ("tierfetch_quota_rate", "c"): 2_000.0,
        ("tierfetch_quota_throttles_total", "b"): 1.0,
        ("tierfetch_quota_throttles_total", "c"): 1.0,
        ("tierfetch_quota_throttle_seconds_total", "b"): 10.0,
        ("tierfetch_quota_throttle_seconds_total", "c"): 10.0,
        ("tierfetch_quota_exempt_rate", ""): 0.0,
        ("tierfetch_quota_refused_connections_total", ""): 0.0,
    }
