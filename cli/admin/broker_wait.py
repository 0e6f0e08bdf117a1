"""`tierfetch brokers wait`: until a broker that was down, or replaced, holds again what it has to, and how far it is.

| the broker                              | shown                                                 |
|-----------------------------------------|-------------------------------------------------------|
| is not registered, or fenced            | that it is not alive                                  |
| is only said to live and be in sync     | that it does not respond                              |
| lives, and replicas are out of sync     | how many are in sync, the others with their leaders,  |
|                                         | and those that the broker itself cannot serve         |
| with `--warm`: has thin replicas        | which, when they are warm at the latest, and what     |
|                                         | comes from the tier where they are being filled       |

Nothing is done before the broker itself says so. After kill -9 the others list it, in every ISR, until its session is
over. A broker accepts connections once it has replayed its own registration, and that takes its old incarnation out of
the ISRs: its own metadata is of this incarnation.

Off a terminal a line is printed when something changes, and every half minute while nothing does. With an outlook it
says when the broker's replicas will be in sync, corrected by how many are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from ...light_dataclass import dataclass
from ...model import Outlook, Sight
from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.net import Address, BrokerUnavailableError
from ..cluster_session import Admin, Cluster
from .local_state import LocalState, Warming, local_state, warming_text
from .outlook_text import Trail, end_text
from .status_bar import StatusBar

LOOK_INTERVAL_S: Final = 0.5
REPEAT_S: Final = 30.0
NAMES_MAX: Final = 3
LOOKS_A_PAUSE: Final = 4
"""A pause is at least as long as so many looks: large clusters are not kept busy."""


@dataclass(frozen=True, slots=True)
class BrokerProgress:
    """The progress of one broker at one look; `warming` only if the command waits for it."""

    broker: int
    is_alive: bool
    replicas: int
    in_sync: int
    warming: Warming | None = None
    thin: int = 0
    warm_in_ms: int = 0
    """Until the last thin replica is warm at the latest."""
    lagging: tuple[str, ...] = ()
    """The replicas that are out of sync, with the leader that each follows."""
    failed: tuple[str, ...] = ()
    """The replicas whose log the broker cannot serve."""
    thin_names: tuple[str, ...] = ()
    live: frozenset[int] = frozenset()
    """The brokers that are alive."""

    @property
    def is_done(self) -> bool:
        return self.is_alive and self.in_sync == self.replicas and self.warming is None and not self.thin

    @property
    def stage(self) -> tuple[object, ...]:
        """What is waited for, without times and bytes."""
        return self.is_alive, self.in_sync, self.replicas, self.failed, self.thin_names, self.warming is None

    def __str__(self) -> str:
        if not self.is_alive:
            return f"broker {self.broker} is not alive: it is fenced or not registered"
        if self.in_sync < self.replicas or (self.warming is None and not self.thin):
            parts = [f"broker {self.broker}: {self.in_sync} of {self.replicas} replicas are in sync"]
            parts += [f"not yet {some(self.lagging)}"] if self.lagging else []
            parts += [f"the broker cannot serve {some(self.failed)}: its log says why"] if self.failed else []
            return "; ".join(parts)
        waits = []
        if self.thin:
            latest = timedelta(seconds=-(-self.warm_in_ms // 1000))
            names = f" ({some(self.thin_names)})" if self.thin_names else ""
            waits.append(f"{self.thin} of {self.replicas} replicas are thin{names}, warm in {latest} at the latest")
        if self.warming is not None:
            waits.append(f"{warming_text(self.warming.as_json())} to come from the tier")
        return f"broker {self.broker}: {'; '.join(waits)}"

    def as_json(self) -> dict[str, object]:
        warming = None if self.warming is None else self.warming.as_json()
        return {
            "broker": self.broker,
            "replicas": self.replicas,
            "in_sync": self.in_sync,
            "thin": self.thin,
            "warming": warming,
            "waits_for": {"in_sync": self.lagging, "served": self.failed, "warm": self.thin_names},
        }


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX} more"


async def look(admin: Admin, broker: int, *, with_warming: bool) -> BrokerProgress:
    """Look once. KafkaError; OSError if no broker responds, or the broker does not whom the others list."""
    cluster = await admin.cluster()
    seen = _progress(cluster, broker)
    if not seen.is_alive:
        return seen
    address = cluster.brokers[broker]
    if not seen.lagging:
        seen = _progress(await _own_metadata(admin, broker, address), broker)
    if not seen.is_alive or (not with_warming and not seen.lagging):
        return seen
    state = await local_state(admin, address)
    if state is None and with_warming and not seen.lagging:
        raise BrokerUnavailableError(f"broker {broker} does not report what it has to read from the tier")
    return seen if state is None else _with_state(seen, state, with_warming=with_warming)


def _progress(cluster: Cluster, broker: int) -> BrokerProgress:
    """Return what one broker's metadata says of `broker`."""
    hosted = [
        (TopicPartition(topic.name, part.partition_index), part)
        for topic in cluster.topics
        for part in topic.partitions
        if broker in part.replica_nodes
    ]
    lagging = tuple(
        f"{name} ({f'leader {part.leader_id}' if part.leader_id >= 0 else 'no leader'})"
        for name, part in hosted
        if broker not in part.isr_nodes
    )
    return BrokerProgress(
        broker,
        broker in cluster.brokers,
        len(hosted),
        len(hosted) - len(lagging),
        lagging=lagging,
        live=frozenset(cluster.brokers),
    )


async def _own_metadata(admin: Admin, broker: int, address: Address) -> Cluster:
    try:
        return await admin.cluster(at=address)
    except OSError as error:
        said = f"broker {broker} does not respond at {address}, though other brokers list it: {error}"
        raise BrokerUnavailableError(said) from None


def _with_state(seen: BrokerProgress, state: LocalState, *, with_warming: bool) -> BrokerProgress:
    failed = tuple(sorted(map(str, state.out_of_service)))
    if not with_warming:
        return replace(seen, failed=failed)
    left_ms = state.warm_in_ms
    return replace(
        seen,
        failed=failed,
        warming=state.total_warming(),
        thin=len(left_ms),
        warm_in_ms=max(left_ms.values(), default=0),
        thin_names=tuple(sorted(map(str, left_ms))),
    )


async def wait_for(
    admin: Admin, broker: int, show: Callable[[BrokerProgress], None], *, with_warming: bool, timeout_s: float
) -> BrokerProgress:
    """The last look, when all is done. REQUEST_TIMED_OUT says how far it was by then. That no broker responds passes
    too: who is asked may be the broker itself.
    """
    began_s = time.monotonic()
    while True:
        look_s = time.monotonic()
        try:
            progress = await look(admin, broker, with_warming=with_warming)
            seen = str(progress)
            show(progress)
            if progress.is_done:
                return progress
        except OSError as error:
            seen = str(error)
        now_s = time.monotonic()
        if now_s - began_s > timeout_s:
            raise KafkaError(ErrorCode.request_timed_out, f"{seen}, after {timeout_s:g} s")
        await asyncio.sleep(max(LOOK_INTERVAL_S, LOOKS_A_PAUSE * (now_s - look_s)))


class WaitingBar(StatusBar):
    """Replicas in sync, then bytes from the tier; `outlook`: how long the former take, as predicted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, outlook: Outlook | None = None) -> None:
        super().__init__()
        self._outlook = outlook
        self._lived: frozenset[int] = frozenset()
        """The brokers that were alive at any look."""
        self._trail = Trail()
        self.in_sync_s: float | None = None
        """When all replicas were in sync, of those that were not at the first look; None if none was seen to come."""
        self.events: dict[str, None] = {}
        """What the outlook does not know of."""
        self._other_moves = ""
        """What of it is a number of replicas: the last one counts."""
        self._first_share: float | None = None
        self._bytes_left_max = 0
        self._clock = clock
        self._began_s = self._shown_s = clock()
        self._stage: tuple[object, ...] | None = None
        self._line_shown = ""

    def show(self, progress: BrokerProgress) -> None:
        done, total = progress.in_sync, progress.replicas
        if progress.warming is not None and done == total:
            left = progress.warming.bytes_left
            self._bytes_left_max = max(self._bytes_left_max, left)
            done, total = self._bytes_left_max - left, self._bytes_left_max
        end = self._end(progress)
        self.show_line(f"{progress}{end}", self._line_of(progress, end), done, total or 1)

    @property
    def saw_it_all(self) -> bool:
        """Whether it was seen from before the first replica was in sync until all were."""
        return self._first_share == 0.0 and self.in_sync_s is not None

    def _end(self, progress: BrokerProgress) -> str:
        """When its replicas are in sync, as it looks now; "" where nothing was predicted or they are."""
        live = progress.live | {progress.broker} if progress.is_alive else progress.live
        for died in sorted(self._lived - live):
            self.events[f"broker {died} died meanwhile"] = None
        self._lived |= live
        share = progress.in_sync / progress.replicas if progress.is_alive and progress.replicas else 0.0
        so_far_s = self._clock() - self._began_s
        if self._first_share is None:
            self._first_share = share
        if share >= 1.0:
            self.in_sync_s = self.in_sync_s or so_far_s
            return ""
        if self._outlook is None:
            return ""
        if progress.is_alive and progress.replicas and (said := self._outlook.of_other_moves(progress.replicas)):
            self.events.pop(self._other_moves, None)
            self._other_moves = said
            self.events[said] = None
        now = Sight(so_far_s, share)
        self._trail.add(now)
        return f"; {end_text(self._outlook.corrected(now, tuple(self.events), self._trail.sights), so_far_s)}"

    def _line_of(self, progress: BrokerProgress, end: str) -> str:
        """Return the line for a log: the same one while only times and bytes change, and with the time every while."""
        now_s = self._clock()
        if progress.stage != self._stage:
            self._stage, self._shown_s, self._line_shown = progress.stage, now_s, f"{progress}{end}"
        elif now_s - self._shown_s >= REPEAT_S:
            so_far = timedelta(seconds=int(now_s - self._began_s))
            self._shown_s, self._line_shown = now_s, f"{progress}, for {so_far} so far{end}"
        return self._line_shown
