"""One look at a tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import RemoteObject, RemoteStorageError, RemoteStorageRefusedError, RemoteStorageTimeoutError
from tierfetch.remote.look import look_at_tier
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage


class ListingFails(MemoryRemoteStorage):
    """Its listing raises `error`, or hangs where there is none."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self._error = error

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        if self._error is None:
            await asyncio.Event().wait()
        else:
            raise self._error
        yield  # type: ignore[misc]


async def test_a_tier_that_answers_has_nothing_wrong() -> None:
    assert await look_at_tier(MemoryRemoteStorage()) is None


@pytest.mark.parametrize("error", [RemoteStorageError("away"), RemoteStorageRefusedError("no such bucket")])
async def test_what_is_wrong_comes_back(error: RemoteStorageError) -> None:
    assert await look_at_tier(ListingFails(error)) is error


async def test_a_tier_that_hangs_is_given_up() -> None:
    error = await look_at_tier(ListingFails(None), timeout_s=0.01)
    assert isinstance(error, RemoteStorageTimeoutError)
    assert str(error) == "no answer within 0.01 s"
