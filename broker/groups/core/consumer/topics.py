"""The topics of the cluster as consumer groups see them, and regular expressions over their names.

A group is given the topics as one immutable value with a version; another version means that something has changed.
Expressions have the syntax of RE2 and match a whole name; RE2 takes time linear in the name for any of them, and memory
within its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol
from uuid import UUID

import re2

from .....light_dataclass import dataclass
from .....protocol import ErrorCode, KafkaError

REGEX_LENGTH_MAX: Final = 8 * 1024
REGEX_MEMORY_MAX: Final = 1024 * 1024
"""Bytes that one compiled expression may take, as RE2 counts them."""


class Pattern(Protocol):
    """A compiled expression."""

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
    return pattern
