"""Every exception of the product has a family (`protocol/errors.py`), and who catches a family names it as such."""

from __future__ import annotations

import ast
import builtins
from functools import cache

from tierfetch.protocol.errors import InternalError, OperatorError, PeerError, RetriableError

from .test_tidy import ROOT, parsed, sources

FAMILIES = {family.__name__ for family in (PeerError, RetriableError, OperatorError, InternalError)}
PYTHONS_OWN = (OSError, AssertionError)
"""They cannot be given another base; the module's table says to which family they count."""
WITHOUT = {
    "_Moved": "is caught where it is raised, in log/replica/reader.py: decide again",
    "MissingExtraError": "is raised where nothing heavy may be imported, Kafka's schemas least of all",
    "SnapshotError": "is caught where a ledger snapshot is read: the topic is read from its start instead",
    "AbandonedError": "ends a call on a plugin's thread after its caller has gone; nobody sees it",
    "MalformedFrameError": "ends the connection between a broker and its copy worker; calls fail with their own errors",
    "PluginCrashError": "is a bug of a plugin, as it would be if the plugin raised in the broker",
    "WrongGroupError": "is what the judge of a group that changes its protocol has found",
    "ApplicationFailedError": "has the error of an application in a simulated cluster as its cause",
    **dict.fromkeys(
        ("AbortableError", "LaterError", "RejoinError", "SupersededError"), "is what a simulated worker was answered"
    ),
}
PRODUCT = [path for path in sources(tests=False) if path != ROOT / "protocol" / "errors.py"]


def names_in(node: ast.expr | None) -> list[str]:
    """The last part of each name in a class's base, or in what an except clause names."""
    if isinstance(node, ast.Tuple):
        return [name for element in node.elts for name in names_in(element)]
    if isinstance(node, ast.Starred):
        return names_in(node.value)
    if isinstance(node, ast.Attribute):
        return [node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


@cache
def declared() -> dict[str, set[str]]:
    """The bases of each class of the product, by the class's name; of two that share a name, those both have."""
    found: dict[str, set[str]] = {}
    for path in [*PRODUCT, ROOT / "protocol" / "errors.py"]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                bases = {name for base in node.bases for name in names_in(base)}
                found[node.name] = found.get(node.name, bases) & bases
    return found


def ancestors(name: str) -> set[str]:
    return {name}.union(*(ancestors(base) for base in declared().get(name, ()) if base != name))


def is_exception(name: str) -> bool:
    own = getattr(builtins, name, None)
    return isinstance(own, type) and issubclass(own, BaseException)


def exceptions() -> list[str]:
    """Return the product's exceptions: not for parameters of tests, which every run collects, whatever it runs."""
    return sorted(name for name in declared() if any(map(is_exception, ancestors(name))))


def has_family(name: str) -> bool:
    all_of_it = ancestors(name)
    own = [getattr(builtins, base) for base in all_of_it if is_exception(base)]
    return bool(FAMILIES & all_of_it) or any(issubclass(base, PYTHONS_OWN) for base in own)


def test_the_exceptions_are_found() -> None:
    assert len(exceptions()) > 60
    assert {"CorruptRecordError", "RequestTimedOutError", "JobError", "NeverJoinedError"} <= set(exceptions())


def test_an_exception_has_a_family() -> None:
    without = {name for name in exceptions() if not has_family(name)}
    assert without == WITHOUT.keys(), "give it a base of protocol/errors.py, or a reason in WITHOUT"


def test_an_exception_has_one_family() -> None:
    assert not [name for name in exceptions() if len(FAMILIES & ancestors(name)) > 1]


def spells_it_out(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return {"OSError", "KafkaError"} <= set(names_in(node.type))
    return isinstance(node, ast.Assign | ast.AnnAssign) and {"OSError", "KafkaError"} <= set(names_in(node.value))


def test_outside_is_not_spelled_out() -> None:
    by_hand = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PRODUCT
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler | ast.stmt) and spells_it_out(node)
    ]
    assert not by_hand, "the family is protocol.errors.OUTSIDE"
