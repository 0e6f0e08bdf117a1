"""Which brokers this controller can reach, and what a look at a broker's listeners shows about its process.

A refused connect says that no process listens, or that something on the way (a port map, NAT, a firewall that rejects)
refuses this controller alone. An address that has taken a connect from this controller under the same registration
distinguishes the two. So each controller, active or not, connects to every broker once it serves, and keeps what it
reached: leadership moves, often because the controller died together with a broker.

| state of a registration | event | next |
|---|---|---|
| unknown | it is unfenced | due: looked at until one of its addresses takes a connect |
| due | another incarnation answers at an address | that address is another process's: still due |
| due | an address takes a connect | reached, by that address |
| due | no address of its own takes one (NAT, a port map) | due again after a pause, which doubles up to `AGAIN_S_MAX` |
| reached | it is alive although its addresses refuse | due again |
| any | another epoch, or fenced, or unregistered | forgotten |

| a look at a reached broker | shows |
|---|---|
| every address refuses, one that was reached among them | REFUSED |
| an address that was reached answers as the registered incarnation | SAME_INCARNATION |
| it answers as another one | OTHER_INCARNATION |
| anything else: an address that is silent, none that was reached | NO_PROOF |

An address to which this machine has no way (no IPv6, say) is left out: no packet left it, so it shows nothing.
Invariant: REFUSED and OTHER_INCARNATION rest on an address that belonged to that broker epoch. Pure; a controller that
starts again knows nothing, and learns it again by connecting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Final
from uuid import UUID

from ..light_dataclass import dataclass
from .core.fast_failover import ProbeOutcome
from .image.image import MetadataImage
from .image.registrations import BrokerRegistration

AGAIN_S_MIN: Final = 0.5
AGAIN_S_MAX: Final = 30.0
"""The pause before a broker that was not reached is tried again, in s: a controller may never reach one."""

REPORTED_PAUSE_S: Final = 4.0
"""One of the pauses: by then a broker that has just registered serves, so that it is reported as not reached."""

AddressKey = tuple[str, int]
"""A numeric host, as a name was resolved, and a port."""


class Attempt(Enum):
    """What became of one connect."""

    TAKEN = auto()
    REFUSED = auto()
    NO_WAY = auto()
    """This machine has no route or no address of that family."""
    SILENT = auto()
    """A timeout, or any other error."""


class News(Enum):
    """What became known of a registration."""

    REACHED = "its listeners are reached: it is fenced at once if its process dies"
    MISSED = "none of its listeners takes a connect of this controller: it is fenced when its session ends if it dies"


@dataclass(frozen=True, slots=True)
class Sight:
    """The result of one look: an attempt for each address, and the incarnations that answered there."""

    attempts: Mapping[AddressKey, Attempt] = field(default_factory=dict)
    incarnations: Mapping[AddressKey, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Missed:
    """A registration of which no address took a connect, and when it is looked at again."""

    epoch: int
    pause_s: float
    due_at_s: float


class Reachability:
    """The table of one controller, for as long as its process lives."""

    def __init__(self) -> None:
        self._reached: dict[int, tuple[int, frozenset[AddressKey]]] = {}
        """The broker epoch, and the addresses that took a connect, by broker id."""
        self._missed: dict[int, _Missed] = {}
        """The brokers that were looked at in vain, by broker id."""

    def due(self, image: MetadataImage, now_s: float) -> list[BrokerRegistration]:
        """Return the brokers that serve, were not reached yet and whose turn it is; forget what is over."""
        return [broker for broker in self._unreached(image) if self._due_at_s(broker) <= now_s]

    def pause_s(self, image: MetadataImage, now_s: float) -> float | None:
        """Return how long nobody is due; None while nobody is missing."""
        due_at_s = [self._due_at_s(broker) for broker in self._unreached(image)]
        return max(0.0, min(due_at_s) - now_s) if due_at_s else None

    def _unreached(self, image: MetadataImage) -> list[BrokerRegistration]:
        serving = {broker_id: broker for broker_id, broker in image.brokers.items() if not broker.fenced}
        self._reached = {
            broker_id: entry
            for broker_id, entry in self._reached.items()
            if broker_id in serving and serving[broker_id].epoch == entry[0]
        }
        self._missed = {broker_id: missed for broker_id, missed in self._missed.items() if broker_id in serving}
        return [broker for broker_id, broker in sorted(serving.items()) if broker_id not in self._reached]

    def _due_at_s(self, broker: BrokerRegistration) -> float:
        missed = self._missed.get(broker.broker_id)
        return missed.due_at_s if missed is not None and missed.epoch == broker.epoch else 0.0

    def note(self, broker: BrokerRegistration, sight: Sight, now_s: float) -> News | None:
        """Take up a look at a broker that serves. Return what an operator should know of it; None if it is not new."""
        own = {
            address
            for address, attempt in sight.attempts.items()
            if attempt is Attempt.TAKEN
            and sight.incarnations.get(address, broker.incarnation_id) == broker.incarnation_id
        }
        before = self._missed.pop(broker.broker_id, None)
        if own:
            self._reached[broker.broker_id] = broker.epoch, frozenset(own) | self._addresses(broker)
            return News.REACHED
        is_again = before is not None and before.epoch == broker.epoch
        pause_s = min(AGAIN_S_MAX, 2 * before.pause_s) if before is not None and is_again else AGAIN_S_MIN
        self._missed[broker.broker_id] = _Missed(broker.epoch, pause_s, now_s + pause_s)
        return News.MISSED if pause_s == REPORTED_PAUSE_S else None

    def is_alive(self, broker_id: int) -> None:
        """Take up that a broker whose addresses refused is alive: they refuse this controller alone."""
        self._reached.pop(broker_id, None)

    def outcome(self, broker: BrokerRegistration, sight: Sight) -> ProbeOutcome:
        """Return what a look shows of the process that registered (see the module)."""
        reached = self._addresses(broker)
        answered = {sight.incarnations[address] for address in reached & sight.incarnations.keys()}
        if broker.incarnation_id in sight.incarnations.values():
            return ProbeOutcome.SAME_INCARNATION
        if answered:
            return ProbeOutcome.OTHER_INCARNATION
        tried = {address: attempt for address, attempt in sight.attempts.items() if attempt is not Attempt.NO_WAY}
        is_refused = all(attempt is Attempt.REFUSED for attempt in tried.values())
        return ProbeOutcome.REFUSED if is_refused and reached & tried.keys() else ProbeOutcome.NO_PROOF

    def _addresses(self, broker: BrokerRegistration) -> frozenset[AddressKey]:
        epoch, addresses = self._reached.get(broker.broker_id, (-1, frozenset[AddressKey]()))
        return addresses if epoch == broker.epoch else frozenset()
