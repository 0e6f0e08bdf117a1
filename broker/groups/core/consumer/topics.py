"""The topics of the cluster as consumer groups see them, and regular expressions over their names.

A group is given the topics as one immutable value with a version; another version means that something has changed.
Expressions have the syntax of RE2 and match a whole name. RE2 takes memory within its limit, and time that is linear in
the name and in the size of the expression's program: for the largest that is let in, and the longest name, some 10 ms,
where an ordinary expression takes a microsecond. So matching is counted by both, and done in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol
from uuid import UUID

import re2

from .....light_dataclass import dataclass
from .....protocol import ErrorCode, KafkaError
from .....protocol.wire import Steps

STEP_ELEMENTS: Final = 500
"""What is matched in one step, in elements of `pace`; it ends with the match that exceeds it."""
REGEX_LENGTH_MAX: Final = 8 * 1024
REGEX_MEMORY_MAX: Final = 1024 * 1024
"""Bytes that one compiled expression may take, as RE2 counts them."""
REGEX_PROGRAM_MAX: Final = 10_000
"""Instructions that one compiled expression may have; it takes up to 4 ns for each with each character of a name."""
COMPILE_COST: Final = 200
"""What it costs to compile an expression, in elements of `pace`, 10 us at most."""
MATCH_COST: Final = 2
PROGRAM_PER_ELEMENT: Final = 2_500
"""Instructions times characters that cost one element."""


class Pattern(Protocol):
    """A compiled expression."""

    @property
    def programsize(self) -> int:
        """The number of its instructions."""

    def fullmatch(self, text: str) -> object | None:
        """Return something true if the expression matches the whole text, else None."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that may be assigned."""

    name: str
    topic_id: UUID
    partitions: int


Topics = Mapping[str, Topic]
"""The topics by name; immutable."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a signed 64-bit number that changes when the topics of these names do; 0 if none of them exists."""
    digest, is_empty = blake2b(digest_size=8), True
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            is_empty = False
            digest.update(f"{name}\0{topic.topic_id}\0{topic.partitions}\0".encode())
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def compiled(expression: str) -> Pattern:
    """Return the expression compiled. Raise INVALID_REGULAR_EXPRESSION."""
    if len(expression) > REGEX_LENGTH_MAX:
        reason: object = f"it has {len(expression)} characters, at most {REGEX_LENGTH_MAX} are allowed"
        raise KafkaError(ErrorCode.invalid_regular_expression, f"the regular expression is refused: {reason}")
    options = re2.Options()
    options.max_mem = REGEX_MEMORY_MAX
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        message = f"regular expression {expression[:100]!r} is not valid in RE2: {reason}"
        raise KafkaError(ErrorCode.invalid_regular_expression, message) from error
    if pattern.programsize > REGEX_PROGRAM_MAX:
        message = (
            f"regular expression {expression[:100]!r} has {pattern.programsize} instructions,"
            f" at most {REGEX_PROGRAM_MAX} are allowed: repeat less in it"
        )
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    return pattern


def matching(
    expressions: Iterable[str], topics: Topics, may_see: Callable[[str], bool]
) -> Steps[tuple[dict[str, list[str]], dict[str, KafkaError]]]:
    """Return the topics that each expression matches, in order, of those that may be seen; and why an expression cannot
    be used: another coordinator may have taken it in.
    """
    found: dict[str, list[str]] = {}
    rejected: dict[str, KafkaError] = {}
    cost = 0
    for expression in expressions:
        cost += COMPILE_COST
        try:
            pattern = compiled(expression)
        except KafkaError as error:
            rejected[expression] = error
            continue
        names, size = list[str](), pattern.programsize
        for name in topics:
            if cost >= STEP_ELEMENTS:
                yield
                cost = 0
            cost += MATCH_COST + size * len(name) // PROGRAM_PER_ELEMENT
            if pattern.fullmatch(name) and may_see(name):
                names.append(name)
        found[expression] = sorted(names)
    return found, rejected
