"""A light dataclass is, for who uses it, the standard library's: each test makes the same class with both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import threading
import typing
from collections.abc import Callable
from dataclasses import InitVar, field
from types import FunctionType
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch import light_dataclass

T = TypeVar("T")
Decorator = Callable[..., Any]

STANDARD: Decorator = dataclasses.dataclass
LIGHT: Decorator = light_dataclass.dataclass
BOTH = pytest.mark.parametrize("dataclass", [STANDARD, LIGHT], ids=["standard", "light"])
OPTIONS = [
    {"frozen": frozen, "eq": eq, "unsafe_hash": unsafe_hash, "kw_only": kw_only}
    for frozen in (False, True)
    for eq in (False, True)
    for unsafe_hash in (False, True)
    for kw_only in (False, True)
]
"""Every choice but that of `repr`, which other tests make."""


def made(dataclass: Decorator, **options: Any) -> Any:
    class Segment(Generic[T]):
        size_max: ClassVar[int] = 10
        base_offset: int
        names: tuple[str, ...] = ()
        reason: str = field(default="", compare=False)
        held: list[int] = field(default_factory=list, hash=False)
        secret: str = field(default="x", repr=False)
        doubled: int = field(init=False, default=0)
        found: dict[str, int] = field(init=False, default_factory=dict, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "doubled", 2 * self.base_offset)

    Segment.__qualname__ = "Segment"
    return dataclass(slots=True, **options)(Segment)


def outcome(work: Callable[[], object]) -> object:
    """Return what `work` returns, or the error that it raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)


def looked_at(cls: Any) -> list[object]:
    """Return all that can be seen of a class and its instances."""
    first, second, third = cls(base_offset=1), cls(base_offset=1, reason="other"), cls(base_offset=2, held=[3])

    def match() -> object:
        match first:
            case cls(offset, names):  # type: ignore[misc]
                return offset, names
        return None

    return [
        [repr(each) for each in (first, second, third)],
        [first == second, first == third, first != third, first == 1, first == first],
        outcome(lambda: hash(first) == hash(second)) if cls.__hash__ is not object.__hash__ else "by identity",
        cls.__hash__ is None,
        outcome(lambda: setattr(first, "base_offset", 3)),
        outcome(lambda: delattr(third, "names")),
        outcome(lambda: cls()),
        outcome(lambda: cls(1, 2, unknown=3)),
        outcome(lambda: cls(1, ("a",)).names),
        outcome(lambda: cls(base_offset=1, doubled=2)),
        outcome(match),
        cls.__slots__,
        cls.__match_args__,
        [(item.name, item.type, item.default, item.init, item.kw_only) for item in dataclasses.fields(cls)],
        repr(cls.__dataclass_params__),
        str(inspect.signature(cls)),
        dataclasses.replace(first, base_offset=7).doubled,
        dataclasses.asdict(second),
        copy.deepcopy(second).reason,
        repr(copy.copy(second)),
        cls(base_offset=1).held is not cls(base_offset=1).held,
        hasattr(first, "__dict__"),
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_is_the_same_with_every_option(options: dict[str, bool]) -> None:
    light = made(LIGHT, **options)
    assert isinstance(vars(light)["__init__"], light_dataclass._Deferred)
    assert looked_at(light) == looked_at(made(STANDARD, **options))


@pytest.mark.parametrize(
    "options", [{"order": True}, {"slots": False}, {"init": False}, {"weakref_slot": True}], ids=str
)
def test_what_is_not_plain_is_made_by_the_standard_library(options: dict[str, bool]) -> None:
    def epoch() -> type:
        return type("Epoch", (), {"__annotations__": {"number": "int"}, "__module__": __name__})

    standard, light = (dataclass(epoch(), **{"slots": True, **options}) for dataclass in (STANDARD, LIGHT))
    assert [name for name in vars(standard) if name not in vars(light)] == []
    assert not any(isinstance(each, light_dataclass._Deferred) for each in vars(light).values())


@BOTH
def test_what_a_class_defines_itself_is_kept(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Node:
        id: int
        directory: str

        def __init__(self, id: int) -> None:
            object.__setattr__(self, "id", id)
            object.__setattr__(self, "directory", "d")

        def __hash__(self) -> int:
            return self.id

        def __repr__(self) -> str:
            return "node"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Node)

    assert (hash(Node(5)), repr(Node(5)), Node(5) == Node(6)) == (5, "node", True)


@BOTH
def test_an_equality_of_its_own_leaves_the_hash_to_the_fields(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Node:
        id: int

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(Node(5)) == hash((5,))


@BOTH
@pytest.mark.parametrize("name", ["__setattr__", "__delattr__"])
def test_a_frozen_class_may_not_set_attributes_itself(dataclass: Decorator, name: str) -> None:
    class Node:
        id: int

    setattr(Node, name, lambda *_: None)
    with pytest.raises(TypeError, match=f"Cannot overwrite attribute {name} in class Node"):
        dataclass(frozen=True, slots=True)(Node)


@BOTH
def test_a_hash_of_its_own_and_one_of_the_fields_exclude_each_other(dataclass: Decorator) -> None:
    class Node:
        id: int

        def __hash__(self) -> int:
            return 1

    with pytest.raises(TypeError, match="Cannot overwrite attribute __hash__ in class Node"):
        dataclass(slots=True, unsafe_hash=True)(Node)


@BOTH
def test_an_argument_without_a_default_comes_first(dataclass: Decorator) -> None:
    class Node:
        id: int = 0
        directory: str

    with pytest.raises((TypeError, SyntaxError), match=r"non-default argument|without a default"):
        dataclass(slots=True)(Node)(1, "d")


def test_no_attribute_is_added() -> None:
    """The original with slots raises TypeError for a frozen class, about its own `super`."""
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'unknown'"):
        made(LIGHT, frozen=True)(1).unknown = 2
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        made(LIGHT)(1).unknown = 2


@BOTH
def test_what_is_only_for_the_constructor_reaches_it(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Node:
        id: int
        base: InitVar[int]

        def __post_init__(self, base: int) -> None:
            self.id += base

    assert Node(1, 2).id == 3


def test_classes_derive_from_it() -> None:
    """With the original, what derives from a frozen class with slots cannot set what it adds: its `super` fails."""

    @light_dataclass.dataclass(frozen=True, slots=True)
    class Event:
        at_ms: int

    @light_dataclass.dataclass(frozen=True, slots=True)
    class Timeout(Event):
        name: str = "t"

    class Noted(Event):
        note: str

    noted = Noted(1)
    noted.note = "n"  # type: ignore[misc]
    assert (repr(Timeout(1)), Timeout(1) == Timeout(1, "t"), noted.note) == (
        f"{Timeout.__qualname__}(at_ms=1, name='t')",
        True,
        "n",
    )
    del noted.note
    assert Noted(1) == noted != Event(1)
    for change in (lambda: setattr(noted, "at_ms", 2), lambda: setattr(Timeout(1), "name", "u")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


@BOTH
def test_a_value_that_contains_itself_has_a_repr(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Holder:
        held: list[Any]

    holder = Holder([])
    holder.held.append(holder)
    assert repr(holder) == f"{Holder.__qualname__}(held=[...])"


@BOTH
def test_a_number_that_equals_nothing_equals_itself_within_a_value(dataclass: Decorator) -> None:
    """Values are compared as tuples, which take the same object for equal."""
    cls = dataclass(slots=True)(type("Rate", (), {"__annotations__": {"rate": float}, "__module__": __name__}))
    assert cls(math.nan) == cls(math.nan)


@light_dataclass.dataclass(frozen=True, slots=True)
class Placed:
    offset: int
    epochs: tuple[int, ...] = ()


@given(st.builds(Placed, epochs=...), st.integers(), st.tuples(st.integers()))
def test_values_are_equal_when_their_fields_are(placed: Placed, offset: int, epochs: tuple[int, ...]) -> None:
    """Hypothesis finds the types of the constructor's arguments by itself, as with the original."""
    other = Placed(offset, epochs)
    assert (placed == other) == ((placed.offset, placed.epochs) == (offset, epochs))
    assert hash(other) == hash((offset, epochs))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(other, protocol)) == other


def test_its_constructor_says_what_it_takes() -> None:
    assert typing.get_type_hints(Placed.__init__) == {"offset": int, "epochs": tuple[int, ...], "return": type(None)}
    assert Placed.__init__.__qualname__ == "Placed.__init__"


@BOTH
def test_all_methods_are_named_as_they_are_called_and_tell_their_types(dataclass: Decorator) -> None:
    cls = made(dataclass, frozen=True)
    for name in ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
        method = getattr(cls, name)
        assert method.__name__ == name
        assert method.__qualname__.endswith(f".{name}")
        types = typing.get_type_hints(method)
        assert bool(types) == (name == "__init__"), name
    assert str(inspect.signature(cls.__repr__)) == "(self)"


@BOTH
@pytest.mark.parametrize("options", [{}, {"frozen": True}], ids=str)
def test_a_field_may_have_any_name(dataclass: Decorator, options: dict[str, bool]) -> None:
    @dataclass(slots=True, **options)
    class Odd:
        other: int
        write: int = 1
        held: list[int] = field(default_factory=list)
        _make_held: int = 2
        _set_held: int = 3
        _default_write: int = 4
        _unset: int = 5
        fields: int = 6
        hash: int = 7
        cls: int = 8

    assert (Odd(0, held=[1]).held, Odd(0).held, Odd(0).write, Odd(0) == Odd(0)) == ([1], [], 1, True)

    @dataclass(slots=True, **options)
    class Own:
        self: int

    assert Own(3).self == 3


def test_a_method_is_written_once_when_it_is_first_used() -> None:
    cls = made(LIGHT, frozen=True)
    assert not isinstance(vars(cls)["__eq__"], FunctionType)
    one, other = cls(1), cls(1)
    written = vars(cls)["__init__"]
    assert isinstance(written, FunctionType)
    assert one == other
    assert isinstance(vars(cls)["__eq__"], FunctionType)
    assert not isinstance(vars(cls)["__hash__"], FunctionType)
    assert vars(type(cls(2)))["__init__"] is written


def test_threads_that_use_a_class_first_at_the_same_time_get_equal_values() -> None:
    for _ in range(50):
        cls, found, together = made(LIGHT, frozen=True, eq=True), [], threading.Barrier(4)

        def use(cls: Any = cls, found: list[Any] = found, together: threading.Barrier = together) -> None:
            together.wait()
            found.append(cls(base_offset=1, names=("a",)))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [cls(1, ("a",))] * 4
