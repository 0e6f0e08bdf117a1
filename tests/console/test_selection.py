"""Filters, pages, hosts and documents of the console."""

from __future__ import annotations

import json

import pytest

from tierfetch.console.core.documents import document_of
from tierfetch.console.core.hosts import ListenRefusedError, allowed_hosts, check_listen, host_name
from tierfetch.console.core.replicas import BarPart, OnDisk, PartKind
from tierfetch.console.core.selection import Only, Query, paged, query_of, selected
from tierfetch.console.core.state import Move, Overview, Partition, topics_of


def part(topic: str, index: int, *, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> Partition:
    return Partition(topic=topic, index=index, leader=leader, epoch=1, replicas=(1, 2), isr=isr)


OVERVIEW = Overview(
    taken_at_s=0,
    partitions=(part("orders", 0), part("orders", 1, isr=(1,)), part("orders2", 0), part("pay", 0, leader=-1)),
    moves=(Move(topic="pay", partition=0, replicas=(1, 2, 3), adding=(3,), removing=(1,)),),
)
DISKS = {2: {("orders2", 0): OnDisk(size_bytes=1, warm_in_ms=9), ("pay", 0): OnDisk(size_bytes=1)}}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(), ["orders-0", "orders-1", "orders2-0", "pay-0"]),
        (Query(topic="orders"), ["orders-0", "orders-1"]),
        (Query(text="ORDERS2"), ["orders2-0"]),
        (Query(only=Only.HURT), ["orders-1", "pay-0"]),
        (Query(only=Only.THIN), ["orders2-0"]),
        (Query(only=Only.MOVING), ["pay-0"]),
        (Query(text="<script>"), []),
    ],
)
def test_which_partitions_a_page_shows(query: Query, names: list[str]) -> None:
    assert [each.name for each in selected(OVERVIEW, DISKS, query)] == names


def test_ten_thousand_rows_are_two_hundred_pages() -> None:
    page = paged(range(10_000), 200)
    assert (page.rows, page.number, page.pages, page.total) == (tuple(range(9_950, 10_000)), 200, 200, 10_000)
    assert paged(range(51), 999).rows == (50,)
    assert paged([], 1).pages == 1


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ({}, Query()),
        ({"q": " a ", "topic": "t", "only": "thin", "page": "3"}, Query("a", "t", Only.THIN, 3)),
        ({"only": "ALL", "page": "-1"}, Query()),
        ({"page": "\u0663"}, Query()),
        ({"page": "9" * 5000}, Query()),
        ({"q": "x" * 1000}, Query("x" * 249)),
    ],
)
def test_a_url_of_any_kind_is_a_query(parameters: dict[str, str], query: Query) -> None:
    assert query_of(parameters) == query


def test_topics_in_figures() -> None:
    rows = [(each.name, each.partitions, each.out_of_sync, each.leaderless) for each in topics_of(OVERVIEW.partitions)]
    assert rows == [("orders", 2, 1, 0), ("orders2", 1, 0, 0), ("pay", 1, 0, 1)]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_no_leave(host: str) -> None:
    check_listen(host, is_remote_allowed=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", ""])
def test_other_addresses_are_refused_unless_the_operator_means_it(host: str) -> None:
    with pytest.raises(ListenRefusedError, match="--allow-remote"):
        check_listen(host, is_remote_allowed=False)
    check_listen(host, is_remote_allowed=True)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8080", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:8080", "::1"),
        ("EVIL.example:80", "evil.example"),
        ("localhost:80@evil.example", ""),
        ("localhost:", ""),
        ("[::1", ""),
        ("::1", ""),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


def test_names_that_may_ask() -> None:
    assert allowed_hosts("127.0.0.1") == {"localhost", "127.0.0.1", "::1"}
    assert allowed_hosts("0.0.0.0", ["Console.example"]) == {"0.0.0.0", "console.example"}


def test_a_document_has_the_fields_names() -> None:
    document = document_of({1: (BarPart(PartKind.LOCAL, 0.0, 1.0), None)})
    assert json.dumps(document) == '{"1": [{"kind": "local", "start": 0.0, "width": 1.0}, null]}'
    with pytest.raises(TypeError, match="bytes"):
        document_of(b"")
