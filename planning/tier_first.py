"""Tier, then move: leaders roll and upload what they hold, so that new replicas find it in the tier.

No request makes a leader roll. `segment.ms` does, lowered for as long as the plan runs and put back at its end: the
active segment then closes at the first record after that time, and the next pass of the remote log manager uploads it.
What remains to be copied is what is produced between two such uploads. A partition without producers does not
roll, so it saves nothing; the price are smaller segments in the tier, and the requests that write them: each one puts
the log and its indexes.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import ClusterArrays, Floats, Ints, Policy

PUTS_PER_SEGMENT: Final = 6
"""The log, two indexes, the producer snapshot, the leader epochs, and (with transactions) the aborted ones."""
_ADOPTS = frozenset({Policy.TIER_FIRST, Policy.EARLIEST_PENDING_UPLOAD, Policy.KAFKA_LAST_TIERED})


@dataclass(frozen=True, slots=True)
class TierStep:
    """Before the first wave: `topics` get `segment.ms` = `roll_s`, until the end; then wait until uploads have caught
    up, about `wait_s`. `saved_bytes` are then not copied by the plan's moves. `puts` are the writes to the tier that
    rolling takes until then, and for each `roll_s` of the moves at least; `put_cost` what they cost, in the inventory's
    currency.
    """

    topics: tuple[str, ...]
    roll_s: float
    wait_s: float
    saved_bytes: float
    puts: int = 0
    put_cost: float = 0.0


def bytes_after_tiering(arrays: ClusterArrays, policy: Policy, now: Floats, roll_s: float) -> Floats:
    """[P], what a new replica copies once its leader rolls and uploads every `roll_s`; `now` is what it copies now."""
    if policy not in _ADOPTS:
        return now
    rolls = arrays.tiered[arrays.topic] & (arrays.produce > 0)
    later = np.minimum(now, arrays.produce * (roll_s + arrays.rlm.interval_s))
    copied: Floats = np.where(rolls, later, now)
    return copied


def tier_step(
    arrays: ClusterArrays, moved: Ints, saved: Floats, roll_s: float, moves_s: float = 0.0
) -> TierStep | None:
    """`moved`: the partition of each move, `saved`: bytes of each that need not be copied then; the moves take
    `moves_s` at least. None if nothing is saved.
    """
    useful = np.unique(moved[saved > 0])
    if not len(useful):
        return None
    rate = np.inf if arrays.rlm.copy_bytes_per_s is None else arrays.rlm.copy_bytes_per_s
    by_leader = np.bincount(arrays.leader[useful].clip(0), weights=arrays.pending_bytes[useful])
    topics = tuple(arrays.topic_names[topic] for topic in np.unique(arrays.topic[useful]))
    wait_s = roll_s + arrays.rlm.interval_s + float(by_leader.max()) / rate
    is_rolling = np.isin(arrays.topic, arrays.topic[useful]) & (arrays.produce > 0)
    puts = int(is_rolling.sum()) * PUTS_PER_SEGMENT * math.ceil((wait_s + moves_s) / roll_s)
    return TierStep(topics, roll_s, wait_s, float(saved.sum()), puts, puts * arrays.tier.price_per_put)
