"""The configs that throttle one wave (KIP-73): who sends, who receives, how fast.

    topic     leader.replication.throttled.replicas      partition:broker of every replica that there is now
              follower.replication.throttled.replicas    partition:broker of every replica that comes
    broker    leader.replication.throttled.rate, follower.replication.throttled.rate
              replica.alter.log.dirs.io.max.bytes.per.second, where replicas move between its log directories

A list that is longer than a config may be becomes `*`: the topic's other replicas that are not in sync are throttled
too, those that are in sync never. Topics of earlier waves get their lists back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .cluster_state import PartitionState
from .journal import ConfigValue, Entry, Header, Key

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUE_LENGTH_MAX: Final = 32_767
"""Characters of one config: Kafka's limit of a record's string."""


def throttle_configs(
    header: Header,
    entries: Sequence[Entry],
    partitions: Mapping[Key, PartitionState],
    bytes_per_s: int,
    *,
    returns: bool,
) -> tuple[ConfigValue, ...]:
    """Return the throttle configs for a wave of these entries, forward or back."""
    sends: dict[str, list[str]] = {}
    receives: dict[str, list[str]] = {}
    brokers: set[int] = set()
    movers = {broker for entry in entries for broker, _ in (entry.directories_before if returns else entry.directories)}
    for entry in entries:
        found = partitions.get(entry.key)
        if found is None:
            continue
        target = entry.before if returns else entry.target
        there = [broker for broker in found.replicas if broker not in found.adding]
        come = [broker for broker in target if broker not in there]
        if come:
            sends.setdefault(entry.topic, []).extend(f"{entry.partition}:{broker}" for broker in there)
            receives.setdefault(entry.topic, []).extend(f"{entry.partition}:{broker}" for broker in come)
            brokers.update(there, come)
    values = [value for value in header.old_configs if value.kind == "topic" and value.name not in sends]
    values = [value for value in values if value.key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
    for topic in sorted(sends):
        values.append(ConfigValue(kind="topic", name=topic, key=LEADER_REPLICAS, value=_list(sends[topic])))
        values.append(ConfigValue(kind="topic", name=topic, key=FOLLOWER_REPLICAS, value=_list(receives[topic])))
    # Both sides: a leader's limit alone would let one follower take all of it from many leaders, and the reverse.
    rate = str(bytes_per_s)
    for broker in sorted(brokers):
        values.append(ConfigValue(kind="broker", name=str(broker), key=LEADER_RATE, value=rate))
        values.append(ConfigValue(kind="broker", name=str(broker), key=FOLLOWER_RATE, value=rate))
    values += [
        ConfigValue(kind="broker", name=str(broker), key=DIRECTORY_RATE, value=rate) for broker in sorted(movers)
    ]
    return tuple(values)


def config_keys(
    topics: Sequence[str], brokers: Sequence[int], entries: Iterable[Entry] = ()
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Kind, name and keys of everything that a plan of these entries may set, and puts back at its end."""
    movers = sorted({broker for entry in entries for broker, _ in (*entry.directories, *entry.directories_before)})
    return [
        *(("topic", topic, (LEADER_REPLICAS, FOLLOWER_REPLICAS, "segment.ms")) for topic in topics),
        *(("broker", str(broker), (LEADER_RATE, FOLLOWER_RATE)) for broker in brokers),
        *(("broker", str(broker), (DIRECTORY_RATE,)) for broker in movers),
    ]


def _list(items: Sequence[str]) -> str:
    text = ",".join(items)
    return text if len(text) <= VALUE_LENGTH_MAX else "*"
