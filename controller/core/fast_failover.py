"""When to fence a broker before its session ends: proof that its process is dead.

A process that dies closes its sockets. That alone proves nothing: a live broker may close a connection, a network may
reset it. So the controller looks at once, by connecting to the broker's listeners:

| seen | means |
|---|---|
| every address refuses, one that this controller had reached among them | no process listens there: a sign |
| another incarnation answers at an address where the registered one did | the registered one is dead: a sign |
| two signs in a row, and no heartbeat since | proof |
| an answer by the same incarnation | alive: the search ends |
| a timeout, an unreachable host, a reset after accept | nothing |
| a refusal by addresses that never took a connect (NAT, port maps; `reachability`) | nothing |
| anything, looking for a registration that is over | nothing |

A live broker sends a heartbeat as soon as its connection ends: the pause between two looks gives it the time.

Even with proof, a controller fences a broker only while it is in contact with most of them:

    brokers that have sent it a heartbeat since it became active, without that one and those that it recently fenced
        are more than half of
    all that are not fenced, and those that it recently fenced (within one session timeout)

After one session timeout every unfenced broker has sent a heartbeat, so the rule is then: never half of the brokers or
more. One of two is half: no third broker can say which of the two lost the other. Before, the rule says more:

| what a new controller might take for a death | why it does not |
|---|---|
| a refusal from before it became active | only its own connects count, and those of its time |
| a refusal of another incarnation | it counts for the registration, by its epoch, that was looked for |
| a network that refuses this controller | most brokers have reached it, and most controllers commit what it decides |
| a broker that has not found it yet | it still listens, and beats as soon as it knows of a new controller |
| a minority, after another one | brokers that are fenced when it begins count as recently fenced |

Heartbeats of an earlier time, or to another controller, do not count: nothing that came before is known here, nor after
this process paused.

While a broker's session lasts, the end of the connection with its heartbeats says when to look. A broker that died
before, or with the previous controller (one process may be both), has none here: for one session timeout a new
controller looks for silent brokers by itself, as soon as it is in contact with most of them.

A broker that was started again asks to be registered, which its old registration forbids until the session ends. It
need not wait where there is proof that the old process is dead and it listens at one of that one's addresses; also one
of two, or all at once: no majority is needed, as it speaks for itself. A request alone proves nothing, since two live
processes can advertise one address; it has the old one looked for again.

| the registered incarnation | a newcomer with its id |
|---|---|
| has a live connection, or sent a heartbeat since it ended | DUPLICATE_BROKER_REGISTRATION |
| has lost its connection, no proof | the same, and its listeners are looked at again |
| proof, another address | the same |
| proof, and an ISR would be left empty (a directory is missing) | the same, until a session timeout is over |
| proof | registered |

Pure: the shell makes the connections and reports.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import field
from enum import Enum, auto
from typing import Final

from ...light_dataclass import dataclass
from ..image.image import MetadataImage

SIGNS_NEEDED: Final = 2
PROBES_MAX: Final = 8
"""Connects after one lost connection; a broker that starts again is seen by then, or its session decides."""
LOOK_INTERVAL_S: Final = 0.5
"""How long a new controller waits between two looks for brokers that have sent it no heartbeat."""


class ProbeOutcome(Enum):
    """What a connect to the broker's listener showed, in the words of the log. The last is all that proves nothing."""

    REFUSED = "its listeners refuse connections"
    OTHER_INCARNATION = "another incarnation answers at its address"
    SAME_INCARNATION = "the registered incarnation answers"
    NO_PROOF = "its listeners show nothing"


class Verdict(Enum):
    """What to do next."""

    PROBE = auto()
    FENCE = auto()
    WAIT = auto()
    """Wait for the session to end, or for the next lost connection."""


@dataclass(slots=True)
class _Suspicion:
    epoch: int
    signs: int = 0
    """They came in a row."""
    probes: int = 0


@dataclass(slots=True)
class FastFailover:
    """One for each time that a controller is active, beginning with `begin`. Times are monotonic."""

    is_enabled: bool
    session_timeout_ms: int
    _began_ms: int = 0
    _in_contact: set[int] = field(default_factory=set)
    """Brokers that have sent a heartbeat since."""
    _disconnected: dict[int, int] = field(default_factory=dict)
    """Epochs of brokers whose heartbeats have lost their connection, and that sent none since."""
    _suspected: dict[int, _Suspicion] = field(default_factory=dict)
    _proven_dead: dict[int, int] = field(default_factory=dict)
    """Epochs of brokers whose processes are proven dead."""
    _fenced_at_ms: dict[int, int] = field(default_factory=dict)

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """This controller became active, or paused: it does not know which brokers are alive."""
        self._began_ms = now_ms
        for known in (self._in_contact, self._disconnected, self._suspected, self._proven_dead):
            known.clear()
        self._fenced_at_ms |= {broker.broker_id: now_ms for broker in image.brokers.values() if broker.fenced}

    def connection_lost(self, image: MetadataImage, broker_id: int, epoch: int) -> Verdict:
        """The connection of the heartbeats of a broker in that epoch has ended."""
        broker = image.brokers.get(broker_id)
        if not self.is_enabled or broker is None or broker.fenced or broker_id not in self._in_contact:
            return Verdict.WAIT
        if broker.epoch != epoch:
            return Verdict.WAIT
        self._disconnected[broker_id] = epoch
        self._suspected[broker_id] = _Suspicion(epoch)
        return Verdict.PROBE

    def challenged(self, image: MetadataImage, broker_id: int) -> Verdict:
        """A newcomer was refused because of this broker: look again where its connection has ended without proof."""
        broker = image.brokers.get(broker_id)
        if (
            broker is None
            or broker.fenced
            or broker_id in self._suspected
            or self._proven_dead.get(broker_id) == broker.epoch
        ):
            return Verdict.WAIT
        if self._disconnected.get(broker_id) != broker.epoch:
            return Verdict.WAIT
        self._suspected[broker_id] = _Suspicion(broker.epoch)
        return Verdict.PROBE

    def look_for_silent(self, image: MetadataImage, now_ms: int) -> list[int] | None:
        """The brokers to probe, because they send no heartbeats, or stopped; None once their sessions are over."""
        if not self.is_enabled or now_ms >= self._began_ms + self.session_timeout_ms:
            return None
        if not self._reaches_most(image, self._recently_fenced(now_ms)):
            return []
        silent = [
            broker
            for broker in image.brokers.values()
            if not broker.fenced
            and broker.broker_id not in self._suspected
            and (broker.broker_id not in self._in_contact or broker.broker_id in self._disconnected)
        ]
        self._suspected |= {broker.broker_id: _Suspicion(broker.epoch) for broker in silent}
        return [broker.broker_id for broker in silent]

    def probed(self, image: MetadataImage, broker_id: int, epoch: int, outcome: ProbeOutcome, now_ms: int) -> Verdict:
        """A connect that was asked for has ended; `epoch` is of the registration that was looked for."""
        suspicion = self._suspected.get(broker_id)
        if suspicion is not None and suspicion.epoch != epoch:
            return Verdict.WAIT  # a later incarnation is suspected by now, and has a search of its own
        broker = image.brokers.get(broker_id)
        if suspicion is None or broker is None or broker.fenced or broker.epoch != suspicion.epoch:
            self._suspected.pop(broker_id, None)
            return Verdict.WAIT
        suspicion.probes += 1
        match outcome:
            case ProbeOutcome.SAME_INCARNATION:
                self._acquit(broker_id)
                return Verdict.WAIT
            case ProbeOutcome.OTHER_INCARNATION | ProbeOutcome.REFUSED:
                suspicion.signs += 1
            case ProbeOutcome.NO_PROOF:
                suspicion.signs = 0
        if suspicion.signs < SIGNS_NEEDED:
            return self._look_again(broker_id, suspicion)
        del self._suspected[broker_id]
        self._proven_dead[broker_id] = epoch
        return self._judge(image, broker_id, now_ms)

    def is_superseded(self, image: MetadataImage, broker_id: int, addresses: Collection[tuple[str, int]]) -> bool:
        """Return whether another incarnation, which listens at `addresses` and asks to be registered, takes the place
        of one whose process is proven dead.
        """
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._proven_dead.get(broker_id) != broker.epoch:
            return False
        return any((item.host, item.port) in addresses for item in broker.end_points)

    def is_recently_fenced(self, broker_id: int, now_ms: int) -> bool:
        """Return whether the session of a fenced broker might not be over yet."""
        return broker_id in self._recently_fenced(now_ms)

    def is_in_contact(self, broker_id: int) -> bool:
        """Return whether the last that is known of the broker is a heartbeat."""
        return broker_id in self._in_contact and broker_id not in self._disconnected

    def heartbeat_received(self, broker_id: int) -> None:
        """Record a heartbeat of the broker."""
        self._in_contact.add(broker_id)
        self._acquit(broker_id)

    def _acquit(self, broker_id: int) -> None:
        """It is alive after all."""
        self._suspected.pop(broker_id, None)
        self._disconnected.pop(broker_id, None)
        self._proven_dead.pop(broker_id, None)

    def _look_again(self, broker_id: int, suspicion: _Suspicion) -> Verdict:
        if suspicion.probes < PROBES_MAX:
            return Verdict.PROBE
        del self._suspected[broker_id]
        return Verdict.WAIT

    def _judge(self, image: MetadataImage, broker_id: int, now_ms: int) -> Verdict:
        recent = self._recently_fenced(now_ms)
        if not self._reaches_most(image, recent | {broker_id}):
            return Verdict.WAIT
        self._fenced_at_ms = {fenced: self._fenced_at_ms[fenced] for fenced in sorted(recent)}
        self._fenced_at_ms[broker_id] = now_ms
        return Verdict.FENCE

    def _recently_fenced(self, now_ms: int) -> set[int]:
        since_ms = now_ms - self.session_timeout_ms
        return {broker_id for broker_id, at_ms in self._fenced_at_ms.items() if at_ms > since_ms}

    def _reaches_most(self, image: MetadataImage, excluded: Set[int]) -> bool:
        """Return whether most brokers are in contact, as the module says. The brokers in `excluded` do not count."""
        live = {broker.broker_id for broker in image.brokers.values() if not broker.fenced}
        return 2 * len((self._in_contact & live) - excluded) > len(live | excluded)
