"""Log directories by name, of replicas that come to a broker with several disks (JBOD)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.model.inventory import Inventory, InventoryError
from tierfetch.model.inventory_parts import LogDir
from tierfetch.planning.directories import Arrival, named_evenly
from tierfetch.planning.goals import Goal
from tierfetch.planning.plan_arrays import plan_file_of
from tierfetch.planning.plan_file import PlanFile
from tierfetch.planning.planner import plan_replicas
from tierfetch.tests.model.builders import broker, document, partition
from tierfetch.tests.planning.clusters import GB, cluster


def disk(path: str, disk_gb: float | None = 100.0, used_gb: float = 0.0) -> LogDir:
    return LogDir(path=path, disk_bytes=None if disk_gb is None else disk_gb * GB, used_bytes=used_gb * GB)


def arrivals(*sizes_gb: float) -> list[Arrival]:
    return [Arrival(("t", number), 1, size * GB) for number, size in enumerate(sizes_gb)]


def named(disks: list[LogDir], *sizes_gb: float) -> list[str]:
    found = named_evenly({1: disks}, arrivals(*sizes_gb))
    return [found[("t", number), 1] for number in range(len(sizes_gb))]


def test_the_emptiest_directory_takes_the_next_the_largest_replica_first() -> None:
    assert named([disk("/a", used_gb=5), disk("/b")], 4, 3, 2) == ["/b", "/b", "/a"]
    assert named([disk("/a"), disk("/b")], 3, 2, 1) == ["/a", "/b", "/b"]


def test_a_larger_disk_takes_more() -> None:
    assert Counter(named([disk("/large", 300), disk("/small", 100)], *[1.0] * 40)) == {"/large": 30, "/small": 10}


def test_what_does_not_fit_goes_where_it_does() -> None:
    assert named([disk("/full", 10, 9), disk("/b", 1000, 950)], 5) == ["/b"]


def test_disks_of_unknown_size_are_filled_by_bytes() -> None:
    assert named([disk("/a", None, 3), disk("/b", None)], 2, 2) == ["/b", "/b"]


def test_a_broker_with_one_directory_has_nothing_to_choose() -> None:
    assert named_evenly({1: [disk("/a")], 2: [disk("/a"), disk("/b")]}, arrivals(1.0)) == {}


@given(st.lists(st.floats(0, 50), max_size=40), st.lists(st.floats(0, 100), min_size=2, max_size=5))
def test_each_replica_has_one_directory_and_none_is_overfull_by_more_than_one(sizes, used) -> None:
    disks = [disk(f"/{number}", None, used_gb) for number, used_gb in enumerate(used)]
    found = named_evenly({1: disks}, arrivals(*sizes))
    assert len(found) == len(sizes)
    filled = {each.path: each.used_bytes for each in disks}
    for number, size in enumerate(sizes):
        filled[found[("t", number), 1]] += size * GB
    taken = {path for path in found.values()}
    low = min(filled.values())
    assert all(filled[path] <= low + max(sizes, default=0.0) * GB + 1 for path in taken)


def test_a_plan_names_the_directory_of_each_replica_that_comes() -> None:
    arrays = cluster([(1, 2), (2, 1)], brokers=3)
    arrays = replace(arrays, log_dirs={3: (disk("/a"), disk("/b"))})
    plan = plan_file_of(arrays, plan_replicas(arrays, Goal.replace({0: 2})))
    again = PlanFile.parse(plan.to_text(), "plan")
    found = {each.key: dict(zip(each.replicas, each.log_dirs or (), strict=True)) for each in again.partitions}
    assert all(places[2] == "any" for places in found.values()), "what stays is left where it is"
    assert {places[3] for places in found.values()} == {"/a", "/b"}


def test_without_several_directories_a_plan_names_none() -> None:
    arrays = cluster([(1, 2), (2, 1)], brokers=3)
    plan = plan_file_of(arrays, plan_replicas(arrays, Goal.replace({0: 2})))
    assert all(each.log_dirs is None for each in plan.partitions)


def test_directories_are_part_of_the_inventory() -> None:
    disks = [{"path": "/a", "disk_bytes": "1 TB"}, {"path": "/b", "disk_bytes": "2 TB", "used_bytes": "5 GB"}]
    found = Inventory.from_document(document([broker(1, log_dirs=disks), broker(2)], [partition(0, [1, 2])]))
    assert found.brokers[0].log_dirs == (disk("/a", 1000), disk("/b", 2000, 5))
    assert Inventory.from_yaml(found.to_yaml()) == found
    with pytest.raises(InventoryError, match="broker 1: log directory /a is there twice"):
        Inventory.from_document(document([broker(1, log_dirs=[disks[0], disks[0]])], [partition(0, [1])]))
