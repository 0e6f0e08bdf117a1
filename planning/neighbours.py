"""Another plan on the same brokers or topics: what shows it, and what this plan does about it.

    seen                                                        before a plan begins    before a later wave
    ----------------------------------------------------------  ----------------------  -------------------
    moves of partitions that are not the plan's, on its         refused, all are named  waited for
    brokers (old replicas or new ones)
    a replication throttle of one of its brokers                refused                 -
    a list of throttled replicas of one of its topics           refused                 -
    (`*` is an operator's, and put back at the end)

Two plans on one broker would share what each takes for its own: the broker's throttle, its room for producers, and the
list of throttled replicas of a topic, which the later one overwrites and the one that ends first takes away. Who knows
better says so (`--share-brokers`), and nothing of this is looked at.

What it cannot see: a plan that begins at the same moment. The later waves of both then wait for each other's moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..log.core import ALL_REPLICAS
from .cluster_state import ClusterState
from .journal import ConfigValue, Key
from .throttling import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS

NAMED_MAX: Final = 5
"""In one line; the rest is counted."""
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
_LISTS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def moves_of_others(state: ClusterState, own: Collection[Key], brokers: Collection[int]) -> list[Key]:
    """The partitions that another plan moves from or to one of these brokers."""
    return sorted(
        key for key, involved in state.under_way.items() if key not in own and not involved.isdisjoint(brokers)
    )


def signs_of_others(
    state: ClusterState, own: Collection[Key], brokers: Collection[int], configs: Sequence[ConfigValue]
) -> list[str]:
    """Why a plan for `own` partitions on these brokers may not begin; `configs` as they are set now."""
    found = []
    if others := moves_of_others(state, own, brokers):
        involved = sorted({broker for key in others for broker in state.under_way[key]} & set(brokers))
        found.append(
            f"{_names(f'{topic}-{partition}' for topic, partition in others)}: another plan moves them on brokers"
            f" {involved}, which this plan uses: wait for that (`tierfetch reassign list`), or cancel it"
        )
    throttled = sorted({int(each.name) for each in configs if each.key in _RATES and each.value is not None})
    if throttled:
        found.append(
            f"brokers {throttled} have a replication throttle already, of a plan that runs or that ended without taking"
            f" it away: wait for that, or remove {' and '.join(_RATES)} (`tierfetch configs alter --broker ID --remove"
            " KEY`)"
        )
    free = (None, "", ALL_REPLICAS)
    listed = sorted({each.name for each in configs if each.key in _LISTS and each.value not in free})
    if listed:
        found.append(
            f"{_names(listed)}: {' or '.join(_LISTS)} is set already, by a plan of the same topic that runs, or that"
            " ended without taking it away: execute this one when `tierfetch reassign list` has nothing of the topic"
            " left; if the config is there even then, remove it (`tierfetch configs alter --topic NAME --remove KEY`)"
        )
    return found


def waiting_for(others: Sequence[Key]) -> str:
    """What a wave waits for, for people."""
    return f"{_names(f'{topic}-{partition}' for topic, partition in others)}, which another plan moves, to end"


def _names(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:NAMED_MAX]) + (f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else "")
