"""Dataclasses whose methods are written when they are first used.

`dataclasses.dataclass` writes and compiles up to seven methods for each class while its module is imported. A node has
a thousand of these classes and uses a few hundred: that was the largest part of its start (docs/benchmarks.md). Here
the standard library collects the fields and makes the slots, as always; a method is `_Deferred` until it is asked for.

    class made:       __init__ = _Deferred    __eq__ = _Deferred    __hash__ = _Deferred
    first instance:   __init__ = function     __eq__ = _Deferred    __hash__ = _Deferred

For type checkers this *is* `dataclasses.dataclass`, and at run time too where a class is not plain: with an order,
without slots, with `InitVar`, or derived from another dataclass. `tests/test_light_dataclass.py` holds that both are
the same to their users: equality, hash, repr, pickles, copies, `replace`, `fields`, matching, frozenness, errors. Two
things differ: a class without a docstring gets one of the names of its fields alone, and a field without a default
after one with a default is an error at the first instance, not before.

A first use compiles one function, some 50 us. Two threads may both do so: the functions are equal, and either stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as standard_dataclass
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["dataclass"]

_PLAIN: Final = {"frozen", "eq", "repr", "unsafe_hash", "kw_only"}
_LEFT: Final = {"init": True, "order": False, "match_args": True, "weakref_slot": False}
"""The other options, with the values that make a plain class."""


class _Unset:
    """The argument that stands for what a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_UNSET: Final = _Unset()


def _dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> object:
    """Make a dataclass, as `dataclasses.dataclass` does with the same options."""

    def make(cls: type) -> type:
        if slots and _is_plain(cls, options):
            return _with_deferred_methods(cls, **{name: options[name] for name in options.keys() & _PLAIN})
        made: type = standard_dataclass(cls, slots=slots, **options)
        return made

    return make if cls is None else make(cls)


def _is_plain(cls: type, options: Mapping[str, bool]) -> bool:
    return (
        all(name in _PLAIN or value is _LEFT.get(name) for name, value in options.items())
        and not hasattr(cls, "__dataclass_fields__")
        and "self" not in cls.__annotations__  # which is the instance here
        and not any("InitVar" in str(each) for each in cls.__annotations__.values())
    )


def _with_deferred_methods(
    cls: type,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    unsafe_hash: bool = False,
    kw_only: bool = False,
) -> type:
    own = dict(vars(cls))
    if "__eq__" in own and own["__hash__"] is None:
        del own["__hash__"]  # which Python has set, not the class
    if not cls.__doc__:  # else `inspect` is asked for the signature, which takes longer than all the rest
        cls.__doc__ = f"{cls.__name__}({', '.join(cls.__annotations__)})"
    made: type[DataclassInstance] = standard_dataclass(
        cls, slots=True, kw_only=kw_only, init=False, repr=False, eq=False
    )
    params = vars(made)["__dataclass_params__"]
    params.init, params.repr, params.eq, params.frozen, params.unsafe_hash = True, repr, eq, frozen, unsafe_hash
    if unsafe_hash and "__hash__" in own:
        raise TypeError(f"Cannot overwrite attribute __hash__ in class {cls.__name__}")
    for name, method in _methods(made).items():
        if name not in own:
            setattr(made, name, method)
        elif method in (_frozen_setattr, _frozen_delattr):
            raise TypeError(f"Cannot overwrite attribute {name} in class {cls.__name__}")
    return made


def _methods(cls: type[DataclassInstance]) -> dict[str, object]:
    """Return the methods of a dataclass with these parameters, those that the class has itself included."""
    params = vars(cls)["__dataclass_params__"]
    methods: dict[str, object] = {"__init__": _Deferred(cls, "__init__", _init)}
    if params.repr:
        methods["__repr__"] = _repr
    if params.eq:
        methods |= {"__eq__": _Deferred(cls, "__eq__", _eq), "__hash__": None}
    if params.unsafe_hash or (params.eq and params.frozen):
        methods["__hash__"] = _Deferred(cls, "__hash__", _hash)
    if params.frozen:
        methods |= {"__setattr__": _frozen_setattr, "__delattr__": _frozen_delattr}
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    return methods


class _Deferred:
    """A method of `cls` until its first use, which puts the function in its place."""

    __slots__ = ("_cls", "_name", "_write")

    def __init__(
        self, cls: type[DataclassInstance], name: str, write: Callable[[type[DataclassInstance]], FunctionType]
    ) -> None:
        self._cls = cls
        self._name = name
        self._write = write

    def __get__(self, instance: object, owner: type | None = None) -> object:
        function = self._write(self._cls)
        function.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        setattr(self._cls, self._name, function)  # only now: another thread finds this, or a whole function
        return function.__get__(instance, owner)


def _compiled(cls: type, signature: str, body: Iterable[str], used: dict[str, object]) -> FunctionType:
    """Return the function, which sees the names of the class's module and, before them, those of `used`."""
    lines = "".join(f"  {line}\n" for line in body)
    source = f"def write({', '.join(used)}):\n def {signature}:\n{lines} return {signature.partition('(')[0]}\n"
    written: dict[str, Callable[..., FunctionType]] = {}
    exec(compile(source, f"<dataclass {cls.__qualname__}>", "exec"), vars(sys.modules[cls.__module__]), written)
    return written["write"](**used)


def _init(cls: type[DataclassInstance]) -> FunctionType:
    used: dict[str, object] = {"__unset__": _UNSET}
    body = [_assignment(cls, item, used) for item in fields(cls)]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    asked = [item for item in fields(cls) if item.init]
    by_name = [_parameter(item) for item in asked if item.kw_only]
    parameters = [_parameter(item) for item in asked if not item.kw_only] + (["*", *by_name] if by_name else [])
    function = _compiled(cls, f"__init__({', '.join(['self', *parameters])})", [*body, "return None"], used)
    function.__annotations__ = {item.name: item.type for item in asked} | {"return": None}
    return function


def _parameter(item: Field[object]) -> str:
    if item.default is not MISSING:
        return f"{item.name}=__default_{item.name}__"
    return item.name if item.default_factory is MISSING else f"{item.name}=__unset__"


def _assignment(cls: type[DataclassInstance], item: Field[object], used: dict[str, object]) -> str:
    """Return the line of `__init__` that sets the field, and add to `used` what it needs."""
    name = given = item.name
    if item.default is not MISSING:
        used[f"__default_{name}__"] = item.default
        given = name if item.init else f"__default_{name}__"
    elif item.default_factory is not MISSING:
        used[f"__make_{name}__"] = item.default_factory
        given = f"__make_{name}__() if {name} is __unset__ else {name}" if item.init else f"__make_{name}__()"
    elif not item.init:
        return "pass"
    if not vars(cls)["__dataclass_params__"].frozen:
        return f"self.{name} = {given}"
    used[f"__set_{name}__"] = getattr(cls, name).__set__  # of the slot: past `_frozen_setattr`
    return f"__set_{name}__(self, {given})"


def _eq(cls: type[DataclassInstance]) -> FunctionType:
    ours, theirs = _tuple("self", cls, _is_compared), _tuple("other", cls, _is_compared)
    body = ["if other.__class__ is self.__class__:", f" return {ours} == {theirs}", "return NotImplemented"]
    return _compiled(cls, "__eq__(self, other)", body, {})


def _hash(cls: type[DataclassInstance]) -> FunctionType:
    return _compiled(cls, "__hash__(self)", [f"return hash({_tuple('self', cls, _is_hashed)})"], {})


def _tuple(of: str, cls: type[DataclassInstance], holds: Callable[[Field[object]], bool]) -> str:
    return f"({''.join(f'{of}.{item.name}, ' for item in fields(cls) if holds(item))})"


def _is_compared(item: Field[object]) -> bool:
    return item.compare


def _is_hashed(item: Field[object]) -> bool:
    return item.compare if item.hash is None else item.hash


# What is not asked for often is the same function in all classes.


@recursive_repr()
def _repr(self: DataclassInstance) -> str:
    held = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({held})"


def _frozen_setattr(self: DataclassInstance, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _frozen_delattr(self: DataclassInstance, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: DataclassInstance, name: str) -> bool:
    """Return True except for what a class that derives from the dataclass, and is none itself, has added."""
    return "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__


def _getstate(self: DataclassInstance) -> list[object]:
    return [getattr(self, item.name) for item in fields(self)]


def _setstate(self: DataclassInstance, state: Iterable[object]) -> None:
    for item, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)


for _name, _function in {
    "__repr__": _repr,
    "__setattr__": _frozen_setattr,
    "__delattr__": _frozen_delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}.items():
    _function.__name__, _function.__qualname__ = _name, f"dataclass.{_name}"
    _function.__annotations__ = {}  # else what asks for types looks here for names that only type checkers know
    vars(_function).pop("__wrapped__", None)  # which has these annotations, from Python 3.13 on

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
