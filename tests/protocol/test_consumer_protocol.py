"""What members of the classic protocol say and are given: Kafka's bytes, as kio's schemas write them."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.wire import read_assignment, read_subscription, write_assignment, write_subscription
from tierfetch.tests.protocol.wire_kit import kio_bytes

NAMES = st.text("abc", min_size=1, max_size=3)
PARTITIONS = st.dictionaries(NAMES, st.frozensets(st.integers(0, 9)), max_size=3)


def by_schema(name: str, version: int, **values: Any) -> bytes:
    """Return what Kafka's schema of this name writes, after the version that goes before it."""
    module = import_module(f"kio.schema.consumer_protocol_{name.lower()}.v{version}.data")
    return struct.pack(">h", version) + kio_bytes(getattr(module, f"ConsumerProtocol{name}"), values)


def listed(partitions: dict[str, frozenset[int]]) -> tuple[dict[str, Any], ...]:
    return tuple({"topic": topic, "partitions": tuple(sorted(of))} for topic, of in sorted(partitions.items()))


@given(st.lists(NAMES, unique=True))
def test_a_subscription_is_written_as_by_the_schema(topics: list[str]) -> None:
    assert write_subscription(topics) == by_schema("Subscription", 0, topics=tuple(topics))
    owning = by_schema("Subscription", 1, topics=tuple(topics), owned_partitions=())
    assert write_subscription(topics, owns_nothing=True) == owning


@given(st.sets(NAMES), PARTITIONS, st.integers(0, 3))
def test_a_subscription_of_any_version_is_read(
    topics: set[str], owned: dict[str, frozenset[int]], version: int
) -> None:
    values: dict[str, Any] = {"topics": tuple(topics), "user_data": b"of a client"}
    values |= {"owned_partitions": listed(owned)} if version >= 1 else {}
    values |= {"generation_id": 5} if version >= 2 else {}
    values |= {"rack_id": "r"} if version >= 3 else {}
    found = read_subscription(by_schema("Subscription", version, **values))
    assert found is not None
    assert (found.version, found.topics) == (version, tuple(sorted(topics)))
    assert (found.owned, found.rack_id) == (owned if version >= 1 else {}, "r" if version >= 3 else None)


@given(PARTITIONS, st.integers(0, 3))
def test_an_assignment_is_written_and_read_as_by_the_schema(
    partitions: dict[str, frozenset[int]], version: int
) -> None:
    data = by_schema("Assignment", version, assigned_partitions=listed(partitions))
    assert write_assignment(partitions, version) == data
    assert read_assignment(data) == partitions


def test_no_bytes_assign_nothing() -> None:
    assert read_assignment(b"") == {}


@pytest.mark.parametrize("data", [b"\0", b"\0\0\x7f\xff\xff\xff", write_assignment({"t": {1}})[:-6]])
def test_what_is_no_assignment_is_none(data: bytes) -> None:
    assert read_assignment(data) is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\x7f\xff\xff\xff", write_subscription(["t"])[:-1]])
def test_what_is_no_subscription_is_none(data: bytes) -> None:
    assert read_subscription(data) is None
