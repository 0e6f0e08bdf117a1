"""What an inventory may not say (`contradictions`), and what it says that is unwise (`doubts`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from ..byte_text import rate, size
from .inventory_parts import BYTES_TOLERANCE, Broker, Cluster, Partition, Topic

LINES_MAX: Final = 20
"""The most lines for one kind of finding; the rest are counted."""


def contradictions(inventory: Cluster) -> list[str]:
    """Everything that makes the inventory impossible."""
    brokers = {broker.id: broker for broker in inventory.brokers}
    found = [f"broker {each} is there twice" for each in _repeated(broker.id for broker in inventory.brokers)]
    found += [f"topic {each} is there twice" for each in _repeated(topic.name for topic in inventory.topics)]
    found += [
        f"broker {broker.id}: log directory {path} is there twice"
        for broker in inventory.brokers
        for path in _repeated(each.path for each in broker.log_dirs)
    ]
    found += _limited(_racks(inventory))
    found += _limited(line for line in _links(inventory))
    found += _limited(line for topic in inventory.topics for line in _topic(topic, brokers))
    found += _limited(_unsure_of_nothing(inventory))
    return found or _limited(_over_capacity(inventory))


def doubts(inventory: Cluster) -> list[str]:
    """What is allowed all the same."""
    return [
        *_limited(_shared_racks(inventory)),
        *_limited(_below_min_isr(inventory)),
        *_limited(_over_committed(inventory)),
        *_limited(_over_committed_uplinks(inventory)),
    ]


def foreground(inventory: Cluster) -> tuple[dict[int, float], dict[int, float]]:
    """Bytes for each second into and out of each broker without any move: produce, replication, consumers, tier."""
    into = {broker.id: 0.0 for broker in inventory.brokers}
    out = dict(into)
    for topic in inventory.topics:
        for partition in topic.partitions:
            if partition.leader < 0:
                continue
            rate = partition.produce_bytes_per_s
            into[partition.leader] += rate
            followers = [each for each in partition.isr if each != partition.leader]
            out[partition.leader] += rate * (len(followers) + topic.tiered) + partition.consume_bytes_per_s
            for follower in followers:
                into[follower] += rate
    return into, out


def uplink_foreground(inventory: Cluster) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes for each second into and out of each rack without any move; clients and the tier are outside."""
    home = {broker.id: broker.rack for broker in inventory.brokers}
    into = dict.fromkeys(home.values(), 0.0)
    out = dict(into)
    for topic in inventory.topics:
        for partition in topic.partitions:
            if partition.leader < 0:
                continue
            rack, produced = home[partition.leader], partition.produce_bytes_per_s
            into[rack] += produced
            out[rack] += produced * topic.tiered + partition.consume_bytes_per_s
            for follower in partition.isr:
                if home[follower] != rack:
                    out[rack] += produced
                    into[home[follower]] += produced
    return into, out


def _limited(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    if len(found) <= LINES_MAX:
        return found
    return [*found[:LINES_MAX], f"... and {len(found) - LINES_MAX} more like these"]


def _repeated(values: Iterable[Hashable]) -> list[Hashable]:
    return [value for value, count in Counter(values).items() if count > 1]


def _racks(inventory: Cluster) -> Iterator[str]:
    racks = {broker.rack for broker in inventory.brokers}
    for rack in inventory.racks:
        if rack.name not in racks:
            yield f"rack {rack.name!r}: no broker is in it"
    for name in _repeated(rack.name for rack in inventory.racks):
        yield f"rack {name!r} is there twice"


def _links(inventory: Cluster) -> Iterator[str]:
    racks = {broker.rack for broker in inventory.brokers}
    for link in inventory.links:
        for rack in (link.from_rack, link.to_rack):
            if rack not in racks:
                yield f"link {link.from_rack} -> {link.to_rack}: no broker is in rack {rack!r}"
    for pair in _repeated((link.from_rack, link.to_rack) for link in inventory.links):
        yield f"link {pair} is there twice"


def _topic(topic: Topic, brokers: dict[int, Broker]) -> Iterator[str]:
    for index in _repeated(partition.index for partition in topic.partitions):
        yield f"{topic.name}-{index} is there twice"
    for partition in topic.partitions:
        name = f"{topic.name}-{partition.index}"
        for line in (*_replicas(partition, brokers), *_sizes(partition, topic)):
            yield f"{name}: {line}"


def _replicas(partition: Partition, brokers: dict[int, Broker]) -> Iterator[str]:
    for each in dict.fromkeys(partition.replicas):
        if each not in brokers:
            yield f"replica {each} is on no broker of this inventory ({_ids(brokers)})"
    for twice in _repeated(partition.replicas):
        yield f"broker {twice} holds two replicas of it"
    for twice in _repeated(partition.isr):
        yield f"broker {twice} is in its ISR twice"
    for each in sorted(set(partition.isr).difference(partition.replicas)):
        yield f"{each} is in the ISR, but no replica ({list(partition.replicas)})"
    lagging = [each.broker for each in partition.lags]
    for twice in _repeated(lagging):
        yield f"broker {twice} lags twice"
    for each in sorted(set(lagging).difference(partition.replicas)):
        yield f"{each} lags, but is no replica ({list(partition.replicas)})"
    for each in sorted(set(lagging).intersection(partition.isr)):
        yield f"{each} lags, and is in the ISR {list(partition.isr)}"
    if partition.leader >= 0 and partition.leader not in partition.isr:
        yield f"leader {partition.leader} is not in the ISR {list(partition.isr)}; -1 if there is no leader"


def _sizes(partition: Partition, topic: Topic) -> Iterator[str]:
    size, local, tiered = partition.size_bytes, partition.local_bytes, partition.tiered_bytes
    if not topic.tiered and tiered > 0:
        yield f"{tiered:,.0f} bytes are tiered, but the topic is not (tiered: true)"
    if tiered > size + BYTES_TOLERANCE:
        yield f"tiered_bytes {tiered:,.0f} exceed size_bytes {size:,.0f}"
    if local > size + BYTES_TOLERANCE:
        yield f"local_bytes {local:,.0f} exceed size_bytes {size:,.0f}"
    if local + tiered < size - BYTES_TOLERANCE:
        yield (
            f"{size - local - tiered:,.0f} bytes are neither local nor tiered: "
            f"size_bytes {size:,.0f}, local_bytes {local:,.0f}, tiered_bytes {tiered:,.0f}"
        )


def _ids(brokers: Iterable[int], shown_max: int = 12) -> str:
    ids = sorted(brokers)
    more = f", ... {len(ids)} in all" if len(ids) > shown_max else ""
    return "it has " + ", ".join(map(str, ids[:shown_max])) + more


def _unsure_of_nothing(inventory: Cluster) -> Iterator[str]:
    """Ranges of what the inventory does not have."""
    brokers = {broker.id for broker in inventory.brokers}
    racks = {rack.name for rack in inventory.racks}
    links = {(link.from_rack, link.to_rack) for link in inventory.links}
    partitions = {(topic.name, each.index) for topic in inventory.topics for each in topic.partitions}
    for each in inventory.unsure:
        if each.broker is not None and each.broker not in brokers:
            yield f"unsure {each.key}: there is no broker {each.broker}"
        elif each.kind == "rack" and each.rack not in racks:
            yield f"unsure {each.key}: there is no rack {each.rack} under racks"
        elif each.kind == "link" and (each.from_rack, each.to_rack) not in links:
            yield f"unsure {each.key}: there is no link {each.from_rack} -> {each.to_rack}"
        elif each.kind == "partition" and (each.topic, each.partition) not in partitions:
            yield f"unsure {each.key}: there is no partition {each.topic}-{each.partition}"


def _over_capacity(inventory: Cluster) -> Iterator[str]:
    counts: Counter[int] = Counter()
    held: dict[int, float] = {broker.id: 0.0 for broker in inventory.brokers}
    for topic in inventory.topics:
        for partition in topic.partitions:
            counts.update(partition.replicas)
            for each in partition.replicas:
                held[each] += partition.local_bytes
    for broker in inventory.brokers:
        if broker.partitions_max is not None and counts[broker.id] > broker.partitions_max:
            yield f"broker {broker.id} holds {counts[broker.id]} replicas, partitions_max is {broker.partitions_max}"
        if held[broker.id] > broker.disk_bytes:
            yield (
                f"broker {broker.id} holds {size(held[broker.id])} of local log, "
                f"its disk_bytes are {size(broker.disk_bytes)}"
            )


def _shared_racks(inventory: Cluster) -> Iterator[str]:
    rack = {broker.id: broker.rack for broker in inventory.brokers}
    racks = len(set(rack.values()))
    for topic in inventory.topics:
        for partition in topic.partitions:
            shared = {name: n for name, n in Counter(rack[each] for each in partition.replicas).items() if n > 1}
            if racks > 1 and len(partition.replicas) - sum(shared.values()) + len(shared) < min(
                racks, len(partition.replicas)
            ):
                names = ", ".join(f"{count} in rack {name!r}" for name, count in sorted(shared.items()))
                yield f"{topic.name}-{partition.index}: replicas share a rack though there are {racks}: {names}"


def _below_min_isr(inventory: Cluster) -> Iterator[str]:
    for topic in inventory.topics:
        for partition in topic.partitions:
            if len(partition.isr) < topic.min_insync_replicas:
                yield (
                    f"{topic.name}-{partition.index}: {len(partition.isr)} in sync, min_insync_replicas is "
                    f"{topic.min_insync_replicas}: it accepts nothing with acks=all"
                )


def _over_committed(inventory: Cluster) -> Iterator[str]:
    into, out = foreground(inventory)
    for broker in inventory.brokers:
        for load, capacity, key in (
            (into[broker.id], broker.nic_in_bytes_per_s, "nic_in_bytes_per_s"),
            (out[broker.id], broker.nic_out_bytes_per_s, "nic_out_bytes_per_s"),
            (into[broker.id], broker.disk_write_bytes_per_s, "disk_write_bytes_per_s"),
        ):
            if load > capacity:
                yield (
                    f"broker {broker.id}: producers, consumers, replication and tiering need {rate(load)}, "
                    f"{key} is {rate(capacity)}"
                )


def _over_committed_uplinks(inventory: Cluster) -> Iterator[str]:
    into, out = uplink_foreground(inventory)
    for rack in inventory.racks:
        for load, capacity, key in (
            (into[rack.name], rack.uplink_in_bytes_per_s, "uplink_in_bytes_per_s"),
            (out[rack.name], rack.uplink_out_bytes_per_s, "uplink_out_bytes_per_s"),
        ):
            if capacity is not None and load > capacity:
                yield (
                    f"rack {rack.name}: producers, consumers, replication and tiering need {rate(load)}, "
                    f"{key} is {rate(capacity)}"
                )
