"""Where a group continues: the text of `--to`, and the offset that it comes to in each partition. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum

from ...light_dataclass import dataclass


class Anchor(Enum):
    """What a target counts from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Target:
    """`number` is an offset, a shift or a time in milliseconds, as the anchor needs it."""

    anchor: Anchor
    number: int = 0


def parse(text: str) -> Target:
    """Return the target of `earliest`, `latest`, `1234`, `+100`, `-100`, or a time in ISO 8601. ValueError says why."""
    if text in ("earliest", "latest"):
        return Target(Anchor(text))
    if re.fullmatch("[+-]?[0-9]+", text):
        return Target(Anchor.OFFSET if text[0].isdigit() else Anchor.COMMITTED, int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r}: expected earliest, latest, an offset, +N or -N, or a time such as 2026-01-31T12:00:00Z"
        ) from None
    # A time without a zone is UTC, as Kafka's tools have it.
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Target(Anchor.TIME, int(zoned.timestamp() * 1000))


def new_offset(
    target: Target, *, earliest: int, latest: int, committed: int | None, at_time: int | None = None
) -> int | None:
    """Return the offset to commit, within the partition; None where there is nothing to count from.

    `at_time` is the first offset with the target's time or a later one; None if all records are older.
    """
    wanted: dict[Anchor, int | None] = {
        Anchor.EARLIEST: earliest,
        Anchor.LATEST: latest,
        Anchor.OFFSET: target.number,
        Anchor.TIME: latest if at_time is None else at_time,
        Anchor.COMMITTED: None if committed is None else committed + target.number,
    }
    found = wanted[target.anchor]
    return None if found is None else min(max(found, earliest), latest)
