"""Bugs that show when connections, the tier, strangers or operators do what they do seldom (`sim/faults/table.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.broker.cluster.lifecycle import BrokerLifecycle, BrokerState
from tierfetch.broker.handlers.fetch_reads import FetchReads
from tierfetch.broker.quotas.clients import BrokerQuotas
from tierfetch.controller.core import broker_registration
from tierfetch.controller.core.fast_failover import FastFailover
from tierfetch.controller.image.client_quotas import QuotaLimit
from tierfetch.protocol.messages.brokers import BrokerHeartbeatResponse
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.quorum.core import election, requests
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.remote.index_cache import RemoteIndexCache
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a request raises the epoch to any number",
    file="quorum/core/requests.py",
    scenario="quorum",
    faults=(FaultKind.QUORUM_GHOST,),
)
def any_epoch_is_claimed() -> Iterator[None]:
    with (
        patch.object(requests, "claim_epoch", lambda *_: True),
        patch.object(election, "claim_epoch", lambda *_: True),
    ):
        yield


@planted(
    "a newcomer is registered while the registered process lives",
    file="controller/core/broker_registration.py",
    scenario="cluster",
    faults=(FaultKind.IMPOSTOR,),
)
def newcomer_is_registered() -> Iterator[None]:
    with patch.object(broker_registration, "_check_incarnation", lambda *_: None):
        yield


@planted(
    "a heartbeat does not end the search for a dead process",
    file="controller/core/fast_failover.py",
    scenario="cluster",
    needs_quiet=True,
    faults=(FaultKind.REFUSED,),
    fast_failover=(True,),
)
def heartbeat_acquits_nobody() -> Iterator[None]:
    def heartbeat_received(self: FastFailover, broker_id: int) -> None:
        self._in_contact.add(broker_id)

    with patch.object(FastFailover, "heartbeat_received", heartbeat_received):
        yield


@planted(
    "the quota of one client is looked up for all",
    file="broker/quotas/clients.py",
    scenario="cluster",
    faults=(FaultKind.QUOTA,),
)
def one_quota_for_all() -> Iterator[None]:
    original = BrokerQuotas._limit
    found: dict[tuple[int, str], QuotaLimit] = {}

    def limit(self: BrokerQuotas, key: str, context: RequestContext) -> QuotaLimit | None:
        """The cache lacks the client in its key."""
        own = original(self, key, context)
        return own if own is None and (id(self), key) not in found else found.setdefault((id(self), key), own)  # type: ignore[arg-type]

    with patch.object(BrokerQuotas, "_limit", limit):
        yield


@planted(
    "a look-up of open transactions in a slow tier begins again each time",
    file="remote/index_cache.py",
    scenario="cluster",
    needs_quiet=True,
    slow_tier=(True,),
    transactional_producers=(1,),
)
def open_offset_begins_again() -> Iterator[None]:
    async def first_open_offset(self: RemoteIndexCache, metadata: RemoteLogSegmentMetadata) -> int | None:
        if metadata.segment_id.id in self._open_offsets:
            return self._open_offsets[metadata.segment_id.id]
        return await self._load_open_offset(metadata)

    with patch.object(RemoteIndexCache, "first_open_offset", first_open_offset):
        yield


@planted(
    "a fetch waits for the tier though it has local records",
    file="broker/handlers/fetch_reads.py",
    scenario="cluster",
    needs_quiet=True,
    slow_tier=(True,),
)
def local_records_wait() -> Iterator[None]:
    original = FetchReads._await_tier

    async def await_tier(self: FetchReads) -> None:
        if self._tier_reads:
            await asyncio.wait([read.records for read in self._tier_reads])
        await original(self)

    with patch.object(FetchReads, "_await_tier", await_tier):
        yield


@planted(
    "a broker shuts down before its leaders have moved",
    file="broker/cluster/lifecycle.py",
    scenario="cluster",
    faults=(FaultKind.RESTART,),
)
def shuts_down_at_once() -> Iterator[None]:
    original = BrokerLifecycle._note

    async def note(self: BrokerLifecycle, response: BrokerHeartbeatResponse) -> None:
        await original(self, response)
        if self.state is BrokerState.LEAVING:
            async with self._changed:
                self.state = BrokerState.LEFT
                self._wake.set()
                self._changed.notify_all()

    with patch.object(BrokerLifecycle, "_note", note):
        yield
