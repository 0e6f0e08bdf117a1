"""Whether what is read is sound: damage is found only where a fault may have made it.

| invariant   | violated when                                                                                         |
|-------------|-------------------------------------------------------------------------------------------------------|
| sound reads | a reader is given bytes that are no batch, while nothing may be corrupt                               |
| sound tier  | a broker finds something wrong in what came of the tier, in a run in which nothing was ever corrupted |
|             | or cut short: it fetches that again, and readers notice nothing                                       |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ...broker import Broker
from .core.events import DamageRead, MomentPassed, Observed
from .core.partition import InvariantViolationError


class SoundReadsJudge:
    """`may_be_corrupt`: what is read now may be damaged. `was_damaged`: a fault has ever corrupted something, or cut a
    download short. `injected` counts what readers were given.
    """

    def __init__(
        self,
        may_be_corrupt: Callable[[], bool],
        was_damaged: Callable[[], bool],
        brokers: Callable[[], Mapping[int, Broker | None]],
        injected: Counter[str],
    ) -> None:
        self._may_be_corrupt = may_be_corrupt
        self._was_damaged = was_damaged
        self._brokers = brokers
        self._injected = injected

    def on(self, event: Observed) -> None:
        match event:
            case DamageRead(detail):
                self._injected["damaged reads"] += 1
                if not self._may_be_corrupt():
                    raise InvariantViolationError("sound reads", detail)
            case MomentPassed():
                self._look_at_brokers()

    def _look_at_brokers(self) -> None:
        for node_id, broker in self._brokers().items():
            damaged = 0 if broker is None or broker.tier is None else broker.tier.manager.counters.damaged_reads
            if damaged and not self._was_damaged():
                detail = f"broker {node_id} has found damage in the tier {damaged} times, and nothing was ever damaged"
                raise InvariantViolationError("sound tier", detail)
