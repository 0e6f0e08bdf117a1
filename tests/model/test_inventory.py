"""What inventories may say, and what is said about those that may not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.model.arrays import ClusterArrays
from tierfetch.model.inventory import Inventory, InventoryError
from tierfetch.model.inventory_parts import Policy
from tierfetch.model.units import FILL_IN, parse_bytes
from tierfetch.tests.model.builders import EXAMPLE, GB, broker, document, partition


def problems(found) -> list[str]:
    with pytest.raises(InventoryError) as raised:
        Inventory.from_document(found)
    return raised.value.problems


def test_the_example_is_sound_and_survives_every_form() -> None:
    inventory = Inventory.read(EXAMPLE)
    assert inventory.warnings() == []
    assert inventory.partition_count == 30
    assert Inventory.from_yaml(inventory.to_yaml()) == inventory
    assert Inventory.from_yaml(inventory.model_dump_json()) == inventory
    assert ClusterArrays.from_inventory(inventory).to_inventory() == inventory


def test_defaults_of_a_partition_and_of_brokers() -> None:
    found = document([{"id": 7}, {"id": 8, "cores": 2}], [partition(0, [8, 7], 3.0)])
    found["broker_defaults"] = {key: value for key, value in broker(1).items() if key != "id"}
    inventory = Inventory.from_document(found)
    only = inventory.topics[0].partitions[0]
    assert (only.leader, only.isr, only.local_bytes, only.pending_bytes) == (8, (8, 7), 3 * GB, 3 * GB)
    assert [each.cores for each in inventory.brokers] == [8, 2]
    assert inventory.bootstrap_policy is Policy.TIER_FIRST


def test_every_missing_rate_is_named_with_its_broker() -> None:
    brokers = [broker(1), broker(5), broker(6)]
    del brokers[1]["nic_in_bytes_per_s"], brokers[2]["disk_bytes"]
    assert problems(document(brokers, [])) == [
        "broker 5 nic_in_bytes_per_s is missing; no rate or size is guessed",
        "broker 6 disk_bytes is missing; no rate or size is guessed",
    ]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"replicas": [1, 9]}, "t-3: replica 9 is on no broker of this inventory (it has 1, 2)"),
        ({"replicas": [2, 2]}, "t-3: broker 2 holds two replicas of it"),
        ({"isr": [1, 3]}, "t-3: 3 is in the ISR, but no replica ([1, 2])"),
        ({"leader": 2, "isr": [1]}, "t-3: leader 2 is not in the ISR [1]; -1 if there is no leader"),
        ({"local_bytes": 2 * GB}, "t-3: local_bytes 2,000,000,000 exceed size_bytes 1,000,000,000"),
        ({"tiered_bytes": 2 * GB}, "t-3: tiered_bytes 2,000,000,000 exceed size_bytes 1,000,000,000"),
        ({"replicas": []}, "topic t partition 3 replicas: expected at least 1, there are 0"),
        ({"leader": -2}, "topic t partition 3 leader: expected at least -1; it is -2"),
        (
            {"log_start_offset": 2**63},
            "topic t partition 3 log_start_offset: expected at most 9223372036854775807; it is",
        ),
        ({"index": 2**31}, "topic t partition 2147483648 index: expected at most 2147483647; it is 2147483648"),
        ({"sise": 1}, "topic t partition 3 sise is no key of an inventory"),
        ({"size_bytes": -1}, "topic t partition 3 size_bytes: expected at least 0; it is -1"),
        ({"produce_bytes_per_s": float("nan")}, "topic t partition 3 produce_bytes_per_s: "),
        ({"size_bytes": True}, "topic t partition 3 size_bytes: true is not a quantity"),
        ({"isr": [1, 2, 2]}, "t-3: broker 2 is in its ISR twice"),
    ],
)
def test_what_is_wrong_with_a_partition(keys, line) -> None:
    found = problems(document(2, [partition(3, [1, 2]) | keys], topic={"tiered": True}))
    assert any(each.startswith(line) for each in found), found


def test_bytes_in_neither_place_and_bytes_that_cannot_be_tiered() -> None:
    gap = partition(0, [1], 10.0, local_bytes=2 * GB, tiered_bytes=7 * GB)
    assert (
        "t-0: 1,000,000,000 bytes are neither local nor tiered"
        in problems(document(1, [gap], topic={"tiered": True}))[0]
    )
    assert "but the topic is not (tiered: true)" in problems(document(1, [partition(0, [1], tiered_bytes=1.0)]))[0]


def test_what_is_there_twice() -> None:
    found = document([broker(1), broker(1)], [partition(0, [1]), partition(0, [1])])
    found["topics"].append(found["topics"][0])
    assert {"broker 1 is there twice", "topic t is there twice", "t-0 is there twice"} <= set(problems(found))


def test_more_than_a_broker_can_hold() -> None:
    brokers = [broker(1, disk_bytes=3 * GB), broker(2, partitions_max=1)]
    assert problems(document(brokers, [partition(0, [1, 2], 2.0), partition(1, [1, 2], 2.0)])) == [
        "broker 1 holds 3.7 GiB of local log, its disk_bytes are 2.8 GiB",
        "broker 2 holds 2 replicas, partitions_max is 1",
    ]


def test_links_to_racks_that_are_not_there() -> None:
    found = document([broker(1, "a")], [], links=[{"from_rack": "a", "to_rack": "z"}])
    assert problems(found) == ["link a -> z: no broker is in rack 'z'"]


def test_racks_that_are_not_there_or_there_twice() -> None:
    racks = [{"name": "a"}, {"name": "z"}, {"name": "a"}]
    assert problems(document([broker(1, "a")], [], racks=racks)) == [
        "rack 'z': no broker is in it",
        "rack 'a' is there twice",
    ]
    odd = [{"name": "a", "uplink_in_bytes_per_s": -1}]
    (line,) = problems(document([broker(1, "a")], [], racks=odd))
    assert line.startswith("rack a uplink_in_bytes_per_s: ")


def test_uplinks_survive_every_form() -> None:
    racks = [{"name": "a", "uplink_out_bytes_per_s": "1 GB/s"}, {"name": "b", "uplink_in_bytes_per_s": "2 GB/s"}]
    found = Inventory.from_document(document([broker(1, "b"), broker(2, "a")], [], racks=racks))
    assert ClusterArrays.from_inventory(found).to_inventory().racks == found.racks
    assert Inventory.from_yaml(found.to_yaml()) == found


def test_a_long_list_of_problems_is_cut() -> None:
    found = problems(document(1, [partition(index, [9]) for index in range(50)]))
    assert len(found) == 21
    assert found[-1] == "... and 30 more like these"


def test_what_is_unwise_is_a_warning() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b", nic_in_bytes_per_s=1e6)]
    rows = [partition(0, [1, 2]), partition(1, [1, 3], isr=[1], produce_bytes_per_s=2e6), partition(2, [3, 1])]
    rows.append(partition(3, [3, 1], produce_bytes_per_s=2e6))
    found = Inventory.from_document(document(brokers, rows, topic={"min_insync_replicas": 2})).warnings()
    assert found == [
        "t-0: replicas share a rack though there are 2: 2 in rack 'a'",
        "t-1: 1 in sync, min_insync_replicas is 2: it accepts nothing with acks=all",
        "broker 3: producers, consumers, replication and tiering need 1.9 MiB/s, nic_in_bytes_per_s is 977 KiB/s",
    ]


def test_an_uplink_that_is_full_without_any_move_is_a_warning() -> None:
    keys = {"produce_bytes_per_s": 3e6, "consume_bytes_per_s": 2e6}
    racks = [
        {"name": "a", "uplink_in_bytes_per_s": 2.9e6, "uplink_out_bytes_per_s": 7.9e6},
        {"name": "b", "uplink_in_bytes_per_s": 3e6, "uplink_out_bytes_per_s": 1.0},
    ]
    found = document(
        [broker(1, "a"), broker(2, "b")], [partition(0, [1, 2], **keys)], topic={"tiered": True}, racks=racks
    )
    lines = Inventory.from_document(found).warnings()
    assert [line.split(", ")[-1].split()[0] for line in lines] == ["uplink_in_bytes_per_s", "uplink_out_bytes_per_s"]
    assert all(line.startswith("rack a: producers, consumers, replication and tiering need ") for line in lines)


def test_one_rack_is_no_shared_rack() -> None:
    assert Inventory.from_document(document(2, [partition(0, [1, 2])])).warnings() == []


@pytest.mark.parametrize("text", ["a: [", "{", "3", ""])
def test_no_document(text) -> None:
    with pytest.raises(InventoryError):
        Inventory.from_yaml(text)


def test_the_file_is_named_in_every_line(tmp_path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\nbrokers: [{id: 1}]\n")
    with pytest.raises(InventoryError) as raised:
        Inventory.read(path)
    assert all(line.startswith(f"{path}: broker 1 ") for line in raised.value.problems)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match="not UTF-8 text"):
        Inventory.read(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 Gbit/s", 1.25e9),
        ("1.5 GB", 1.5e9),
        ("64MiB", 64 * 1024 * 1024),
        ("200 MB/s", 2e8),
        ("1_000", 1000.0),
        ("2 TiB", 2 * 1024**4),
        ("8 bit/s", 1.0),
        ("7", 7.0),
    ],
)
def test_quantities(text, expected) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["10 Gb/s", "100Mbps"])
def test_bits_are_not_taken_for_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="may be bits or bytes"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["{", "a: [", "name: 2020-99-99", '{"a": ' + "1" * 5000, '{"a": ' + "[" * 100_000])
def test_what_cannot_be_parsed_is_one_line(text: str) -> None:
    with pytest.raises(InventoryError, match=r"^neither YAML nor JSON: "):
        Inventory.from_yaml(text)


@pytest.mark.parametrize("text", ["fast", "10 parsecs", "-1 GB", "", "1 GB GB", "FILL-IN"])
def test_no_quantities(text) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity|is not filled in"):
        parse_bytes(text)


@given(st.text(max_size=12))
def test_a_text_is_a_quantity_or_refused_in_words(text) -> None:
    refusal = ""
    try:
        quantity = parse_bytes(text)
    except ValueError as error:
        quantity, refusal = 0.0, str(error)
    assert isinstance(quantity, float)
    assert quantity >= 0
    assert not refusal or "quantity" in refusal or "filled in" in refusal


def test_what_stands_in_the_defaults_once_is_said_once() -> None:
    """A captured file of four brokers with nothing filled in: a line for each value that a person has to find."""
    defaults = {key: FILL_IN for key in broker(1) if key.endswith("_per_s")} | {"cores": FILL_IN}
    brokers = [{"id": each, "rack": "r", "disk_bytes": 1e12} for each in (1, 2, 3, 4)]
    tier = {"latency_ms": FILL_IN, "bandwidth_bytes_per_s": FILL_IN}
    found = problems(document(brokers, []) | {"broker_defaults": defaults, "tier": tier})
    put = "is not filled in: replace FILL-IN by a value such as"
    assert sorted(found) == [
        f"bandwidth_bytes_per_s of tier {put} 10 Gbit/s or 500 MiB/s",
        f"cores of broker_defaults {put} 16",
        f"disk_read_bytes_per_s of broker_defaults {put} 10 Gbit/s or 500 MiB/s",
        f"disk_write_bytes_per_s of broker_defaults {put} 10 Gbit/s or 500 MiB/s",
        f"latency_ms of tier {put} 16",
        f"nic_in_bytes_per_s of broker_defaults {put} 10 Gbit/s or 500 MiB/s",
        f"nic_out_bytes_per_s of broker_defaults {put} 10 Gbit/s or 500 MiB/s",
    ]


def test_a_default_that_is_wrong_is_said_once_and_a_brokers_own_value_of_it() -> None:
    brokers = [{key: value for key, value in broker(each).items() if key != "cores"} for each in (1, 2, 3)]
    brokers[2]["cores"] = "few"
    found = problems(document(brokers, []) | {"broker_defaults": {"cores": -4}})
    assert found == [
        "broker_defaults cores: expected more than 0; it is -4",
        "broker 3 cores: expected a number; it is 'few'",
    ]


def test_sizes_that_are_not_filled_in_are_one_line_with_some_names() -> None:
    parts = [partition(index, [1], size_bytes=FILL_IN, local_bytes=0) for index in range(7)]
    (found,) = problems(document(1, parts, topic={"tiered": True}))
    names = ", ".join(f"topic t partition {index}" for index in range(5))
    assert found == (f"size_bytes of {names} and 2 more is not filled in: replace FILL-IN by a value such as 2 TiB")


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}), st.just([[]])
)
PYDANTIC = re.compile(r"Input should|Field required|Extra inputs|unable to|after validation|Value error|\[type=")


@given(place=st.integers(0, 40), odd=ODD)
def test_no_message_is_the_librarys(place: int, odd: Any) -> None:
    """Whatever stands in whichever place of a whole document."""
    whole = document(
        2, [partition(0, [1, 2]) | {"leader": 1, "isr": [1, 2], "tiered_bytes": 0}], topic={"tiered": True}
    )
    whole |= {"name": "c", "rlm": {"interval_s": 1}, "tier": {"latency_ms": 1}, "links": [{"from_rack": "r"}]}
    places = list(_places(whole))
    node, key = places[place % len(places)]
    node[key] = odd
    said = ""
    try:
        Inventory.from_document(whole)
    except InventoryError as error:
        said = str(error)
    assert not PYDANTIC.search(said), said


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    for key in keys:
        yield node, key
        yield from _places(node[key])
