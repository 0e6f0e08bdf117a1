"""Whether a broker that is silent is fenced in time: a promise of `broker.session.timeout.ms`, faults or not.

The heartbeats that a controller gets show that it runs, and where its log ends. What it has to decide it has decided by
the third of them:

    a session is over --slack--> heartbeat 1: due --> heartbeat 2: its log has grown --> heartbeat 3, at offset n
                                                                         what it appended below n fences the broker

| invariant                 | violated when                                                                     |
|---------------------------|-----------------------------------------------------------------------------------|
| silent brokers are fenced | a batch at n or above is committed in the epoch of that controller, and the broker |
|                           | is not fenced before it, nor registered again                                     |

The second look excuses a controller whose disk holds its appends up. One that is not heard, or whose log stands still,
is not judged, nor is what a controller decided that could not have it committed. A controller that was held up, by a
commit that took long or by a pause, lets all sessions start again: so does the judge, after a batch that is committed
later than the controller takes for held up, and after so long a silence of all brokers (seed 1023), one that began with
its election too. How late a commit was may show only when the next one is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....broker.cluster import BrokerRegistration, ClusterImage
from ....light_dataclass import dataclass
from ....quorum import CommittedBatch
from .events import ControllerElected, HeartbeatReceived, MetadataChanged, Observed
from .partition import InvariantViolationError

SLACK_S: Final = 0.5
APART_S: Final = 0.3
"""Between two of the three heartbeats, at least."""
HELD_UP_DIVISOR: Final = 4
"""A controller that sees the end of a session later than this part of its timeout was held up."""
UNHEARD_DIVISOR: Final = 2
"""Two heartbeats of a broker: who has none of any for so long may have paused."""


@dataclass(slots=True)
class _Silent:
    """A broker's session is over at a controller: how far that has been seen. `by_offset`: -1 until it is known."""

    registered_epoch: int
    silent_s: float
    looked_s: float
    next_offset: int
    first_s: float
    has_grown: bool = False
    by_offset: int = -1


class UnfencedJudge:
    """Judges the controllers by the heartbeats that they receive, and brokers by the newest image."""

    def __init__(
        self, image: Callable[[], ClusterImage], now_s: Callable[[], float], *, session_timeout_ms: int
    ) -> None:
        self._image = image
        self._now_s = now_s
        self._session_s = session_timeout_ms / 1000
        self._held_up_s = self._session_s / HELD_UP_DIVISOR
        self._unheard_s = self._session_s / UNHEARD_DIVISOR
        self._leads_s: dict[int, float] = {}
        self._heard_s: dict[tuple[int, int], float] = {}
        """When the controller of an epoch had a broker's last heartbeat."""
        self._any_heard_s: dict[int, float] = {}
        """When it had the last one of any broker."""
        self._free_s: dict[int, float] = {}
        """When it was held up last."""
        self._prompt_ms: dict[int, float] = {}
        """The least time from the append of a batch, by that controller's wall clock, to its commit."""
        self._commits: dict[int, list[tuple[float, float]]] = {}
        """When each batch of an epoch was committed, and how long that took by the same clock."""
        self._registered_s: dict[tuple[int, int], float] = {}
        self._silent: dict[tuple[int, int], _Silent] = {}

    def on(self, event: Observed) -> None:
        match event:
            case ControllerElected(epoch):
                self._leads_s.setdefault(epoch, self._now_s())
            case HeartbeatReceived(epoch, next_offset, request):
                leads_s = self._leads_s.get(epoch, self._now_s())
                if self._now_s() - self._any_heard_s.get(epoch, leads_s) > self._unheard_s:
                    self._was_held_up(epoch, self._now_s())
                self._heard_s[epoch, request.broker_id] = self._any_heard_s[epoch] = self._now_s()
                self._heard(epoch, next_offset)
            case MetadataChanged(batch, _, before, after):
                for broker in after.brokers.values():
                    if not broker.fenced:
                        self._registered_s.setdefault((broker.id, broker.epoch), self._now_s())
                    else:
                        self._registered_s.pop((broker.id, broker.epoch), None)
                self._note_commit(batch)
                self._check(batch, before)

    def _note_commit(self, batch: CommittedBatch) -> None:
        took_ms = self._now_s() * 1000 - batch.append_time_ms
        prompt_ms = self._prompt_ms[batch.epoch] = min(took_ms, self._prompt_ms.get(batch.epoch, took_ms))
        commits = self._commits.setdefault(batch.epoch, [])
        commits.append((self._now_s(), took_ms))
        for at_s, took in commits if took_ms == prompt_ms else commits[-1:]:
            if took - prompt_ms > self._held_up_s * 1000:
                self._was_held_up(batch.epoch, at_s)

    def _was_held_up(self, epoch: int, until_s: float) -> None:
        """All sessions start again at the controller of that epoch. Who was due by then stays so."""
        self._free_s[epoch] = max(until_s, self._free_s.get(epoch, until_s))
        for key, seen in list(self._silent.items()):
            if key[0] == epoch and (seen.by_offset < 0 or until_s <= seen.first_s):
                del self._silent[key]

    def _heard(self, epoch: int, next_offset: int) -> None:
        """The controller of an epoch runs, and its log ends at this offset."""
        for broker in self._image().brokers.values():
            key, now_s = (epoch, broker.id), self._now_s()
            silent_s = now_s - self._since_s(epoch, broker)
            if broker.fenced or silent_s < self._session_s + SLACK_S:
                if key in self._silent and self._silent[key].by_offset < 0:
                    del self._silent[key]
                continue
            seen = self._silent.get(key)
            if seen is None or seen.registered_epoch != broker.epoch:
                self._silent[key] = _Silent(broker.epoch, silent_s, now_s, next_offset, now_s)
            elif seen.by_offset < 0 and now_s >= seen.looked_s + APART_S:
                if seen.has_grown:
                    seen.by_offset = next_offset
                elif next_offset > seen.next_offset:
                    seen.has_grown, seen.looked_s = True, now_s

    def _since_s(self, epoch: int, broker: BrokerRegistration) -> float:
        never_s = self._now_s()
        return max(
            self._leads_s.get(epoch, never_s),
            self._free_s.get(epoch, 0.0),
            self._heard_s.get((epoch, broker.id), 0.0),
            self._registered_s.get((broker.id, broker.epoch), never_s),
        )

    def _check(self, batch: CommittedBatch, before: ClusterImage) -> None:
        """InvariantViolationError."""
        for (epoch, broker_id), seen in list(self._silent.items()):
            broker = before.brokers.get(broker_id)
            if epoch < batch.epoch or broker is None or broker.fenced or broker.epoch != seen.registered_epoch:
                del self._silent[epoch, broker_id]
            elif epoch == batch.epoch and 0 <= seen.by_offset <= batch.base_offset:
                raise InvariantViolationError(
                    "silent brokers are fenced",
                    f"broker {broker_id} of epoch {broker.epoch} was silent for {seen.silent_s:.3f} s at "
                    f"{seen.looked_s:.3f} s, which the controller of epoch {epoch} had to act on below offset "
                    f"{seen.by_offset} of its log; it is not fenced at {batch.base_offset} "
                    f"(broker.session.timeout.ms is {self._session_s * 1000:.0f})",
                )
