"""What raw members say in bytes, and what the Java program prints."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.bench.coordinators.members import numbers_in, share_of
from tierfetch.bench.coordinators.raw import Topic
from tierfetch.bench.coordinators.transactions import Figures, read_figures
from tierfetch.protocol.net import Address
from tierfetch.protocol.wire import write_assignment

TOPIC = Topic("t", UUID(int=1), tuple(Address("127.0.0.1", 9092 + number % 3) for number in range(10)))


def test_an_assignment_is_read_as_it_was_written() -> None:
    assert numbers_in(write_assignment({"t": frozenset({7, 1})})) == {1, 7}
    assert numbers_in(b"") == frozenset()


@pytest.mark.parametrize("members", [1, 3, 10, 11])
def test_shares_are_all_partitions_and_differ_by_one_at_most(members: int) -> None:
    shares = [share_of(TOPIC, at, members) for at in range(members)]
    assert sorted(number for share in shares for number in share) == sorted(TOPIC.numbers)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_figures_are_the_line_that_the_program_prints() -> None:
    assert read_figures("warming up\nfigures 41.250 12.5 90.0\n") == Figures(41.25, 12.5, 90.0)


@pytest.mark.parametrize("printed", ["", "figures 1 2", "Exception in thread"])
def test_a_program_that_fails_is_an_error_with_what_it_said(printed: str) -> None:
    with pytest.raises(RuntimeError, match="because"):
        read_figures(printed, "because")
