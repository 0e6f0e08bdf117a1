"""The event loop's clock, which never goes back and has nothing to do with the time of day."""

from __future__ import annotations

import asyncio


def monotonic_ms() -> int:
    """Return the time of the running event loop's clock in ms."""
    return int(asyncio.get_running_loop().time() * 1000)
