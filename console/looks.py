"""Values that are read when somebody wants them, and kept for a while.

The cluster is asked only while somebody looks. Whatever the number of readers, a value is read once at a time; after it
there is a pause of `interval_s`, and of at least `PAUSE_FACTOR` times what the reading took, so that a large cluster is
not kept busy by its console. A value that is known to be out of date (`expire`) is read again after a pause of only
what its reading took, at least `PROMPT_S`: a connection that keeps ending makes the console ask half of the time.

    a reader comes                then
    ----------------------------  -------------------------------------------------------------------------------------
    for the first time            it waits for the value, at most `PATIENCE_S`
    and the value has expired,    the same, and gets the old one if that is too short
    or is older than
    `STALE_FACTOR` pauses
    and the pause is over         it gets the value there is; a new one is read meanwhile
    else                          it gets the value there is
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from ..light_dataclass import dataclass
from ..protocol import OUTSIDE, OperatorError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

INTERVAL_S: Final = 3.0
PROMPT_S: Final = 0.1
PAUSE_FACTOR: Final = 4
STALE_FACTOR: Final = 3
PATIENCE_S: Final = 8.0
READING_S: Final = 60.0
"""The deadline of one reading as a whole."""
KEPT_MAX: Final = 32
"""Pages that are kept; the one that was not asked for longest is dropped."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """The last value, None before the first; `error`: why it is not newer, or why there is none."""

    value: T | None
    error: str | None = None


class Kept(Generic[T]):
    """One value; `read` brings a new one. `close` ends a reading that is under way."""

    def __init__(
        self,
        read: Callable[[], Awaitable[T]],
        *,
        interval_s: float = INTERVAL_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._clock = clock
        self._seen: Seen[T] = Seen(None)
        self._ended_s = float("-inf")
        self._took_s = 0.0
        self._pause_s = 0.0
        self._is_expired = False
        self._task: asyncio.Task[None] | None = None

    def expire(self) -> None:
        """Note that the value is out of date, that of a reading that is under way included."""
        self._is_expired = True

    @property
    def is_expired(self) -> bool:
        """Whether the next `get` has it read again."""
        return self._is_expired

    async def get(self) -> Seen[T]:
        """Return the value, as the table above says."""
        age_s = self._clock() - self._ended_s
        is_old = self._is_expired or age_s > STALE_FACTOR * max(self._pause_s, self._interval_s)
        if self._task is None and (self._is_expired or age_s >= self._pause_s):
            prompt_s = max(PROMPT_S, self._took_s)
            self._task = asyncio.create_task(self._renew(max(0.0, min(prompt_s, self._pause_s) - age_s)))
        if self._task is not None and is_old:
            await asyncio.wait([self._task], timeout=self._patience_s)
            if self._seen == Seen(None):
                return Seen(None, f"the cluster has not answered within {self._patience_s:g} s yet")
        return self._seen

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _renew(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._is_expired = False
        began_s = self._clock()
        try:
            async with asyncio.timeout(READING_S):
                self._seen = Seen(await self._read())
        except TimeoutError as error:
            self._seen = Seen(self._seen.value, str(error) or f"the cluster did not answer within {READING_S:g} s")
        except (*OUTSIDE, OperatorError) as error:
            self._seen = Seen(self._seen.value, str(error))
        except Exception:
            logger.exception("internal error while the cluster was read")
            self._seen = Seen(self._seen.value, "internal error, see the output of the command")
        finally:
            self._ended_s = self._clock()
            self._took_s = self._ended_s - began_s
            self._pause_s = max(self._interval_s, PAUSE_FACTOR * self._took_s)
            self._task = None


class KeptByKey(Generic[K, T]):
    """A value for each key, such as a page; at most `KEPT_MAX`."""

    def __init__(self, read: Callable[[K], Awaitable[T]], *, interval_s: float = INTERVAL_S) -> None:
        self._read = read
        self._interval_s = interval_s
        self._kept: OrderedDict[K, Kept[T]] = OrderedDict()

    async def get(self, key: K) -> Seen[T]:
        if key not in self._kept:
            while len(self._kept) >= KEPT_MAX:
                _, oldest = self._kept.popitem(last=False)
                await oldest.close()
            self._kept[key] = Kept(lambda: self._read(key), interval_s=self._interval_s)
        self._kept.move_to_end(key)
        return await self._kept[key].get()

    async def close(self) -> None:
        for kept in self._kept.values():
            await kept.close()
