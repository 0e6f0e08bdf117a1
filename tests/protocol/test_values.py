"""Values: dataclasses that the type checker keeps from being changed."""

from __future__ import annotations

from dataclasses import field, replace

import pytest

from tierfetch.protocol.values import value


@value(order=True)
class Place:
    offset: int
    epoch: int = 0
    reason: str = field(default="", compare=False)


@value
class Node:
    id: int
    directory: str = ""

    def __hash__(self) -> int:
        return self.id


@value(kw_only=True)
class Named:
    id: int


def test_values_of_the_same_fields_are_the_same() -> None:
    assert Place(1, 2, "this") == Place(1, 2, "that") != Place(1, 3)
    assert {Place(1, 2, "this"): "found"}[Place(1, 2, "that")] == "found"
    assert Place(1, 2) < Place(2, 1)


def test_its_own_hash_is_kept() -> None:
    assert hash(Node(5, "here")) == 5
    assert Node(5, "here") != Node(5, "there")


def test_it_has_slots_and_says_what_it_is() -> None:
    assert not hasattr(Place(1), "__dict__")
    assert repr(Named(id=1)) == "Named(id=1)"
    assert replace(Named(id=1), id=2) == Named(id=2)
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[call-arg]
