"""The kinds of mistakes that are made in the product, as edits of a syntax tree. Pure.

An operator gets a node with its surroundings, and returns edits; an edit replaces one field of one node, and can be
taken back. Each yields at most a few edits a node, and no two operators make the same one. What is left out, because
nobody would call it a defect: assertions, log lines, `__repr__`, statements that a type checker alone reads.

| operator           | the mistake                                                                     |
|--------------------|---------------------------------------------------------------------------------|
| boundary           | `<` for `<=` and so on                                                          |
| compare            | `==` for `!=`, `is` for `is not`, `in` for `not in`                             |
| off-by-one         | `n + 1` or `n - 1` becomes `n`                                                  |
| min-max            | `min` for `max`                                                                 |
| boolean            | `True` for `False`                                                              |
| negate             | a condition negated                                                             |
| half-condition     | one half of an `and` or an `or` forgotten                                       |
| drop-call          | a call that is made for its effect is forgotten                                 |
| drop-await         | the same of one that is awaited                                                 |
| drop-sync          | the same of a flush, an fsync, a sync                                           |
| not-awaited        | it is begun, and the next statement does not wait for it                        |
| drop-assignment    | an attribute, or an item, is not set                                            |
| drop-exit          | `return`, `continue` or `break` in a condition is forgotten                     |
| drop-raise         | an error is not raised                                                          |
| drop-finally       | nothing is put in order after an error                                          |
| swallow            | an exception is caught, and nothing is done about it                            |
| swap               | two statements in the other order, where something may tell                     |
| stale-local        | a name keeps its first value                                                    |
| stale-attribute    | an attribute is read before an `await`, and used after it                       |
| forgotten-field    | `replace(...)`, or a constructor with a default for it, without one of its keywords |
| no-lock            | a lock is not taken                                                             |
| no-deadline        | a timeout is not set                                                            |
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

LOGGERS: Final = ("log", "logger", "logging", "_log", "_logger", "LOG", "LOGGER", "_LOG", "_LOGGER", "warnings")
LOG_CALLS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log", "warn")
SYNCS: Final = ("flush", "fsync", "sync", "fdatasync")
LOCKS: Final = ("lock", "mutex", "semaphore", "gate", "condition")
DEADLINES: Final = ("timeout", "timeout_at", "deadline")
QUIET_CALLS: Final = ("bool", "bytes", "dict", "float", "frozenset", "int", "len", "list", "set", "str", "tuple")
STALE_NAME: Final = "_stale_value"

Block = list[ast.stmt]


@dataclass(frozen=True, slots=True)
class Edit:
    """Field `name` of `owner` gets `value`."""

    owner: ast.AST
    name: str
    value: object

    def apply(self) -> Edit:
        """Make the edit, and return the one that takes it back."""
        undo = Edit(self.owner, self.name, getattr(self.owner, self.name))
        setattr(self.owner, self.name, self.value)
        return undo


@dataclass(frozen=True, slots=True)
class Place:
    """A node and its surroundings: field `name` of `parent` is the node, or the list with the node at `index`."""

    node: ast.AST
    parent: ast.AST
    name: str
    index: int | None
    function: ast.FunctionDef | ast.AsyncFunctionDef
    defaults: Mapping[str, Set[str]] = field(default_factory=dict)
    """The fields that have a default, by the name of the class."""

    def replaced(self, *new: ast.AST) -> Edit:
        """Return the edit that puts others in the place of the node."""
        if self.index is None:
            (only,) = new
            return Edit(self.parent, self.name, only)
        nodes = list(getattr(self.parent, self.name))
        nodes[self.index : self.index + 1] = new
        return Edit(self.parent, self.name, nodes)

    def dropped(self) -> Edit:
        """Return the edit that removes a statement."""
        return self.replaced(ast.copy_location(ast.Pass(), self.node))

    @property
    def following(self) -> ast.stmt | None:
        """The next statement of the block."""
        if self.index is None or not isinstance(self.node, ast.stmt):
            return None
        block: Block = getattr(self.parent, self.name)
        return block[self.index + 1] if self.index + 1 < len(block) else None


Operator = Callable[[Place], Iterator[Edit]]

BOUNDARIES: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPPOSITES: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def boundary(place: Place) -> Iterator[Edit]:
    yield from _other_comparisons(place, BOUNDARIES)


def compare(place: Place) -> Iterator[Edit]:
    if not _is_condition(place):  # there it would be what `negate` does
        yield from _other_comparisons(place, OPPOSITES)


def _other_comparisons(place: Place, others: Mapping[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[Edit]:
    if isinstance(place.node, ast.Compare):
        for number, each in enumerate(place.node.ops):
            if (other := others.get(type(each))) is not None:
                ops = list(place.node.ops)
                ops[number] = other()
                yield Edit(place.node, "ops", ops)


def off_by_one(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
        yield place.replaced(node.left)


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def min_max(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        name = "min" if node.func.id == "max" else "max"
        yield Edit(node, "func", ast.copy_location(ast.Name(name, ast.Load()), node.func))


def boolean(place: Place) -> Iterator[Edit]:
    if isinstance(place.node, ast.Constant) and isinstance(place.node.value, bool) and not _is_endless_loop(place):
        yield Edit(place.node, "value", not place.node.value)


def _is_endless_loop(place: Place) -> bool:
    return isinstance(place.parent, ast.While) and place.name == "test"


def _is_condition(place: Place) -> bool:
    """Return whether the node is a whole condition: of a statement, an expression, a comprehension, a pattern."""
    is_test = place.name == "test" and isinstance(place.parent, ast.If | ast.While | ast.IfExp)
    is_filter = place.name == "ifs" and isinstance(place.parent, ast.comprehension)
    return is_test or is_filter or (place.name == "guard" and isinstance(place.parent, ast.match_case))


def negate(place: Place) -> Iterator[Edit]:
    node = place.node
    if _is_condition(place) and isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
        is_negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        negated = node.operand if is_negated else ast.UnaryOp(ast.Not(), node)
        yield place.replaced(ast.copy_location(negated, node))


def half_condition(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            left = node.values[:number] + node.values[number + 1 :]
            yield place.replaced(left[0] if len(left) == 1 else ast.copy_location(ast.BoolOp(node.op, left), node))


def _effect(place: Place) -> ast.Call | None:
    """Return the call that a statement makes for its effect alone, awaited or not."""
    node = place.node
    if not isinstance(node, ast.Expr):
        return None
    call = node.value.value if isinstance(node.value, ast.Await) else node.value
    return call if isinstance(call, ast.Call) and not _is_log_line(call) else None


def _is_log_line(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in LOG_CALLS:
        return False
    owner = ast.unparse(function.value)
    return owner.rpartition(".")[2] in LOGGERS


def _is_sync(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2].strip("_")
    return any(name == each or name.startswith(f"{each}_") for each in SYNCS)


def _is_awaited(place: Place) -> bool:
    return isinstance(place.node, ast.Expr) and isinstance(place.node.value, ast.Await)


def drop_call(place: Place) -> Iterator[Edit]:
    if (call := _effect(place)) is not None and not _is_awaited(place) and not _is_sync(call):
        yield place.dropped()


def drop_await(place: Place) -> Iterator[Edit]:
    if (call := _effect(place)) is not None and _is_awaited(place) and not _is_sync(call):
        yield place.dropped()


def drop_sync(place: Place) -> Iterator[Edit]:
    if (call := _effect(place)) is not None and _is_sync(call):
        yield place.dropped()


def not_awaited(place: Place) -> Iterator[Edit]:
    if (call := _effect(place)) is not None and _is_awaited(place) and "sleep" not in ast.unparse(call.func):
        begun = ast.parse("__import__('asyncio').ensure_future()", mode="eval").body
        assert isinstance(begun, ast.Call), "that is what was parsed"
        begun.args = [call]
        yield Edit(place.node, "value", ast.copy_location(begun, call))


def drop_assignment(place: Place) -> Iterator[Edit]:
    node = place.node
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
    if isinstance(node, ast.AugAssign):
        targets = [node.target]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    if targets and all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets):
        if place.function.name not in ("__init__", "__post_init__"):  # without it any use fails: it says nothing
            yield place.dropped()
    elif isinstance(node, ast.AugAssign):
        yield place.dropped()


def drop_exit(place: Place) -> Iterator[Edit]:
    is_inside = place.parent is not place.function
    is_bare = isinstance(place.node, ast.Continue | ast.Break | ast.Return)
    if is_bare and is_inside and not isinstance(place.parent, ast.match_case | ast.With | ast.AsyncWith | ast.Try):
        yield place.dropped()


def drop_raise(place: Place) -> Iterator[Edit]:
    if isinstance(place.node, ast.Raise) and "NotImplemented" not in ast.unparse(place.node):
        yield place.dropped()


def drop_finally(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.Try) and len(node.finalbody) > 1:  # one alone is dropped elsewhere
        yield Edit(node, "finalbody", [ast.copy_location(ast.Pass(), node.finalbody[0])])


def swallow(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.ExceptHandler) and (len(node.body) > 1 or _is_compound(node.body[0])):
        yield Edit(node, "body", [ast.copy_location(ast.Pass(), node.body[0])])


def _is_compound(statement: ast.stmt) -> bool:
    """Return whether it is compound, or binds a name: other operators drop all other statements."""
    return isinstance(statement, ast.If | ast.For | ast.With | ast.AsyncWith | ast.Try)


def swap(place: Place) -> Iterator[Edit]:
    following = place.following
    is_pair = following is not None and _is_effect(place.node) and _is_effect(following)
    if following is not None and is_pair and not _are_independent(place.node, following):
        assert place.index is not None, "it has one that follows"
        block = list(getattr(place.parent, place.name))
        block[place.index], block[place.index + 1] = following, place.node
        yield Edit(place.parent, place.name, block)


def _are_independent(one: ast.AST, other: ast.AST) -> bool:
    """Return whether nothing can tell the order of two assignments: neither calls anything, or reads what the other
    sets.
    """
    if not isinstance(one, ast.Assign) or not isinstance(other, ast.Assign):
        return False
    if any(_calls(node) for node in (one, other)):
        return False
    texts = ast.unparse(one), ast.unparse(other)
    return not any(
        ast.unparse(target) in text for node, text in ((one, texts[1]), (other, texts[0])) for target in node.targets
    )


def _calls(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Await | ast.Yield | ast.YieldFrom)
        or (isinstance(each, ast.Call) and not (isinstance(each.func, ast.Name) and each.func.id in QUIET_CALLS))
        for each in ast.walk(node)
    )


def _is_effect(node: ast.AST) -> bool:
    """Return whether a statement calls something, or sets an attribute or an item."""
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(call, ast.Call) and not _is_log_line(call)
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return isinstance(node, ast.Assign | ast.AugAssign) and isinstance(target, ast.Attribute | ast.Subscript)


def stale_local(place: Place) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if name in _bound_before(place.function, node):
            yield place.dropped()


def _bound_before(function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Assign) -> set[str]:
    """Return the parameters, and the names that statements at the top of the function bind before the node."""
    arguments = function.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for statement in function.body:
        if statement is node or statement.lineno >= node.lineno:
            break
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            names |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)} if target else set()
    return names


def stale_attribute(place: Place) -> Iterator[Edit]:
    """Read before the statement that waits what the next one reads: one attribute of `self`, not a method."""
    following = place.following
    if following is None or isinstance(following, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if not (isinstance(place.node, ast.Expr | ast.Assign) and _waits(place.node)):
        return
    seen: set[str] = set()
    for name in _attributes_read(following):
        if name in seen or len(seen) == STALE_ATTRIBUTES_MAX:
            continue
        seen.add(name)
        before = ast.parse(f"{STALE_NAME} = self.{name}").body[0]
        for each in ast.walk(before):
            ast.copy_location(each, place.node)
        after = _Reading(name).visit(copy.deepcopy(following))
        assert place.index is not None, "it has one that follows"
        block = list(getattr(place.parent, place.name))
        block[place.index : place.index + 2] = [before, place.node, after]
        yield Edit(place.parent, place.name, block)


STALE_ATTRIBUTES_MAX: Final = 2


def _waits(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Await) for each in ast.walk(node))


def _heads(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions that a statement evaluates first: of a compound one its head alone."""
    for name, value in ast.iter_fields(statement):
        if name not in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST))


def _attributes_read(statement: ast.stmt) -> Iterator[str]:
    called = {id(each.func) for each in ast.walk(statement) if isinstance(each, ast.Call)}
    if isinstance(statement, ast.While):
        return
    for head in _heads(statement):
        for each in ast.walk(head):
            is_own = isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
            if is_own and isinstance(each.ctx, ast.Load) and id(each) not in called:
                yield each.attr


class _Reading(ast.NodeTransformer):
    """Replaces what is read of an attribute of `self` by the value that was kept."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr == self._name
        if is_own and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Name(STALE_NAME, ast.Load()), node)
        return self.generic_visit(node)


def forgotten_field(place: Place) -> Iterator[Edit]:
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    is_copy = name == "replace" and isinstance(node.func, ast.Name)
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None and (is_copy or keyword.arg in place.defaults.get(name, ())):
            yield Edit(node, "keywords", node.keywords[:number] + node.keywords[number + 1 :])


def _named(node: ast.AST, parts: tuple[str, ...]) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    name = ast.unparse(called).rpartition(".")[2].lower().strip("_")
    return any(part in name for part in parts)


def no_lock(place: Place) -> Iterator[Edit]:
    yield from _without_context(place, LOCKS)


def no_deadline(place: Place) -> Iterator[Edit]:
    yield from _without_context(place, DEADLINES)


def _without_context(place: Place, parts: tuple[str, ...]) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.With | ast.AsyncWith):
        for number, item in enumerate(node.items):
            if item.optional_vars is None and _named(item.context_expr, parts):
                items = node.items[:number] + node.items[number + 1 :]
                yield Edit(node, "items", items) if items else place.replaced(*node.body)


OPERATORS: Final[Mapping[str, Operator]] = {
    "boundary": boundary,
    "compare": compare,
    "off-by-one": off_by_one,
    "min-max": min_max,
    "boolean": boolean,
    "negate": negate,
    "half-condition": half_condition,
    "drop-call": drop_call,
    "drop-await": drop_await,
    "drop-sync": drop_sync,
    "not-awaited": not_awaited,
    "drop-assignment": drop_assignment,
    "drop-exit": drop_exit,
    "drop-raise": drop_raise,
    "drop-finally": drop_finally,
    "swallow": swallow,
    "swap": swap,
    "stale-local": stale_local,
    "stale-attribute": stale_attribute,
    "forgotten-field": forgotten_field,
    "no-lock": no_lock,
    "no-deadline": no_deadline,
}
