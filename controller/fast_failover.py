"""When to fence a broker before its session ends: proof that its process is gone.

A process that dies closes its sockets. That alone proves nothing: a live broker may close a connection, a network may
reset it. So the controller looks at once, by connecting to the broker's listener:

| seen | means |
|---|---|
| connection refused, twice in a row | nobody listens on that port: proof |
| an answer by another incarnation | the registered one is gone: proof |
| an answer by the same incarnation | alive: no more looking |
| a timeout, an unreachable host, a reset after accept | nothing |
| anything, looking for a registration that is over | nothing |

Even with proof nothing is fenced

* within one session timeout after this controller became active: it has not heard the brokers yet, its own network may
  be what failed;
* if, with this one, half of the brokers or more were fenced so within one session timeout: then suspect ourselves. One
  of two is half: which of the two lost the other, nobody else can tell;
* when it is switched off.

Then the session timeout decides, as always.

A broker that was started again fences nobody: it asks to be registered itself, which its old registration would forbid
until the session ends. Where the connection of that one has ended, and the new incarnation has bound its listener, it
has taken its place, and need not wait; also one of two, or all at once: that they are heard shows that the network is
whole.

Pure: the shell makes the connections and reports.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from .image import MetadataImage

REFUSALS_NEEDED: Final = 2
PROBES_MAX: Final = 8
"""Connects after one lost connection; a broker that starts again is seen by then, or its session decides."""


class ProbeOutcome(Enum):
    """What a connect to the broker's listener showed. The last stands for all that proves nothing."""

    REFUSED = auto()
    OTHER_INCARNATION = auto()
    SAME_INCARNATION = auto()
    NO_PROOF = auto()


class Verdict(Enum):
    """What to do next."""

    PROBE = auto()
    FENCE = auto()
    WAIT = auto()
    """For the session to end, or for the next lost connection."""


@dataclass(slots=True)
class _Suspicion:
    epoch: int
    refusals: int = 0
    probes: int = 0


@dataclass(slots=True)
class FastFailover:
    """One for each time that a controller is active. Times are monotonic."""

    is_enabled: bool
    session_timeout_ms: int
    active_since_ms: int
    _disconnected: dict[int, int] = field(default_factory=dict)
    """Epochs of brokers whose heartbeats have lost their connection, and were not heard of since."""
    _suspected: dict[int, _Suspicion] = field(default_factory=dict)
    _fenced_at_ms: dict[int, int] = field(default_factory=dict)

    def connection_lost(self, image: MetadataImage, broker_id: int, now_ms: int) -> Verdict:
        """The connection on which the broker sent its heartbeats has ended."""
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return Verdict.WAIT
        self._disconnected[broker_id] = broker.epoch
        if not self._may_act(now_ms):
            return Verdict.WAIT
        self._suspected[broker_id] = _Suspicion(broker.epoch)
        return Verdict.PROBE

    def probed(self, image: MetadataImage, broker_id: int, epoch: int, outcome: ProbeOutcome, now_ms: int) -> Verdict:
        """A connect that was asked for has ended; `epoch` is of the registration that was looked for."""
        suspicion = self._suspected.get(broker_id)
        if suspicion is not None and suspicion.epoch != epoch:
            return Verdict.WAIT  # a later incarnation is suspected by now, and looked for by somebody else
        broker = image.brokers.get(broker_id)
        if suspicion is None or broker is None or broker.fenced or broker.epoch != suspicion.epoch:
            self._suspected.pop(broker_id, None)
            return Verdict.WAIT
        suspicion.probes += 1
        match outcome:
            case ProbeOutcome.SAME_INCARNATION:
                self.heard(broker_id)
                return Verdict.WAIT
            case ProbeOutcome.OTHER_INCARNATION:
                suspicion.refusals = REFUSALS_NEEDED
            case ProbeOutcome.REFUSED:
                suspicion.refusals += 1
            case ProbeOutcome.NO_PROOF:
                suspicion.refusals = 0
        if suspicion.refusals < REFUSALS_NEEDED:
            return self._look_again(broker_id, suspicion)
        del self._suspected[broker_id]
        return self._judge(image, broker_id, now_ms)

    def is_succeeded(
        self, image: MetadataImage, broker_id: int, addresses: Collection[tuple[str, int]], now_ms: int
    ) -> bool:
        """Whether another incarnation, which listens at `addresses` and asks to be registered, has taken the place of
        the one that is.
        """
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._disconnected.get(broker_id) != broker.epoch:
            return False
        is_same_listener = any((item.host, item.port) in addresses for item in broker.end_points)
        return is_same_listener and self._may_act(now_ms)

    def heard(self, broker_id: int) -> None:
        """A heartbeat came, or it answered a probe: alive after all."""
        self._suspected.pop(broker_id, None)
        self._disconnected.pop(broker_id, None)

    def _look_again(self, broker_id: int, suspicion: _Suspicion) -> Verdict:
        if suspicion.probes < PROBES_MAX:
            return Verdict.PROBE
        del self._suspected[broker_id]
        return Verdict.WAIT

    def _judge(self, image: MetadataImage, broker_id: int, now_ms: int) -> Verdict:
        since_ms = now_ms - self.session_timeout_ms
        recent = {fenced for fenced, at_ms in self._fenced_at_ms.items() if at_ms > since_ms}
        live = {broker.broker_id for broker in image.brokers.values() if not broker.fenced}
        is_minority = 2 * len(recent | {broker_id}) < len(live | recent)
        if not is_minority or not self._may_act(now_ms):
            return Verdict.WAIT
        self._fenced_at_ms = {fenced: self._fenced_at_ms[fenced] for fenced in sorted(recent)}
        self._fenced_at_ms[broker_id] = now_ms
        return Verdict.FENCE

    def _may_act(self, now_ms: int) -> bool:
        return self.is_enabled and now_ms >= self.active_since_ms + self.session_timeout_ms
