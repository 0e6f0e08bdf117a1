"""Clusters to plan for, as hypothesis draws them; the benchmark of the planner makes larger ones."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tierfetch.model.arrays import ClusterArrays
from tierfetch.model.inventory import Inventory
from tierfetch.model.inventory_parts import Broker, Partition, Policy, Topic

GB = 1e9


def broker(number: int, rack: str = "", **fields: float) -> Broker:
    rates = {"nic_in_bytes_per_s": GB, "nic_out_bytes_per_s": GB, "disk_read_bytes_per_s": GB}
    rates |= {"disk_write_bytes_per_s": GB, "disk_bytes": 1e15}
    return Broker.model_validate({"id": number, "rack": rack, "cores": 8, **rates, **fields})


def cluster(
    replicas: list[tuple[int, ...]],
    *,
    brokers: int = 4,
    racks: int = 1,
    sizes: list[float] | None = None,
    tiered: list[float] | None = None,
    policy: Policy = Policy.TIER_FIRST,
    produce: float = 0.0,
) -> ClusterArrays:
    """One topic, ids from 1; `tiered` is the share of each partition that lies in the tier alone."""
    shares = tiered or [0.0] * len(replicas)
    bytes_ = sizes or [GB] * len(replicas)
    partitions = [
        Partition.model_validate(
            {
                "index": number,
                "replicas": each,
                "size_bytes": size,
                "tiered_bytes": size * share,
                "local_bytes": size * (1 - share / 2),
                "produce_bytes_per_s": produce,
            }
        )
        for number, (each, size, share) in enumerate(zip(replicas, bytes_, shares, strict=True))
    ]
    return ClusterArrays.from_inventory(
        Inventory(
            version=1,
            brokers=tuple(broker(number + 1, f"r{number % racks}") for number in range(brokers)),
            bootstrap_policy=policy,
            topics=(Topic(name="t", tiered=any(shares), partitions=tuple(partitions)),),
        )
    )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterArrays:
    """2 to 9 brokers in 1 to 4 racks, up to 40 partitions of any number of replicas, some of them tiered."""
    brokers = draw(st.integers(2, 9))
    racks = draw(st.integers(1, min(4, brokers)))
    factor = draw(st.integers(1, min(4, brokers)))
    count = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    used = draw(st.integers(factor, brokers))
    replicas = [tuple((random.permutation(used)[: random.integers(1, factor + 1)] + 1).tolist()) for _ in range(count)]
    tiered = random.choice([0.0, 0.5, 1.0], count).tolist() if draw(st.booleans()) else None
    return cluster(
        replicas,
        brokers=brokers,
        racks=racks,
        sizes=random.lognormal(20, draw(st.sampled_from([0.0, 1.0])), count).tolist(),
        tiered=tiered,
        policy=draw(st.sampled_from(list(Policy))),
        produce=draw(st.sampled_from([0.0, 1e6])),
    )
