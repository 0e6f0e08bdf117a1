"""A leader with a tier, and what reads from it for consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

from .brokers import TIERED, Broker
from .reading import Readers, close_readers, make_readers


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata())
    await broker.open(replace(TIERED, index_interval_bytes=100))
    await broker.lead(0)
    yield broker
    await broker.close()


@pytest.fixture
async def readers(broker: Broker) -> AsyncIterator[Readers]:
    made = await make_readers(broker.storage, broker.metadata)
    yield made
    await close_readers(made)
