"""One look at a tier: can it be used as it is configured?

| what comes back of an empty listing | what it means |
|---|---|
| nothing | the tier answers |
| RemoteStorageRefusedError | the configuration is wrong (no such bucket, no rights): waiting does not help |
| another RemoteStorageError, no answer in time | the tier is away: it may come back |

A look writes nothing and costs one request, of the port's own: every plugin can list.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from ..protocol import TopicIdPartition
from .storage import RemoteStorageError, RemoteStorageManager, RemoteStorageTimeoutError

LOOK_TIMEOUT_S: Final = 10.0
_NOBODYS: Final = TopicIdPartition(UUID(int=0), "tierfetch-look", 0)
"""A partition that no cluster has."""


async def look_at_tier(storage: RemoteStorageManager, timeout_s: float = LOOK_TIMEOUT_S) -> RemoteStorageError | None:
    """What is wrong with the tier; None for nothing."""
    try:
        async with asyncio.timeout(timeout_s):
            async for _ in storage.list_objects(_NOBODYS):
                break
    except RemoteStorageError as error:
        return error
    except TimeoutError:
        return RemoteStorageTimeoutError(f"no answer within {timeout_s:g} s")
    return None
