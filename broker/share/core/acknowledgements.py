"""What a consumer says of records that it was given, checked and cut into ranges of one kind.

A batch has one type for all its offsets, or one for each. GAP is an offset without a record.

| type | the record becomes |
|---|---|
| 0 GAP, 3 REJECT | ARCHIVED |
| 1 ACCEPT | ACKNOWLEDGED |
| 2 RELEASE | AVAILABLE; ARCHIVED once it was delivered as often as allowed |
| 4 RENEW | what it is, with a new lock (KIP-1222) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from ....protocol import ErrorCode, KafkaError


class AcknowledgeType(IntEnum):
    """The types by their numbers in requests."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgementBatch(NamedTuple):
    """Offsets `first` to `last`, and their types as the request has them."""

    first: int
    last: int
    types: Sequence[int]


class Acknowledged(NamedTuple):
    """Offsets `first` to `last`, which have one type."""

    first: int
    last: int
    type: AcknowledgeType


def acknowledged_ranges(batches: Iterable[AcknowledgementBatch], *, may_renew: bool) -> list[Acknowledged]:
    """Return what is acknowledged, in the order of the offsets. Raise INVALID_REQUEST."""
    ranges: list[Acknowledged] = []
    end = 0
    for batch in batches:
        _check(batch, end, may_renew=may_renew)
        end = batch.last + 1
        first = batch.first
        if len(batch.types) == 1:
            ranges.append(Acknowledged(first, batch.last, AcknowledgeType(batch.types[0])))
            continue
        for number, alike in groupby(batch.types):
            last = first + sum(1 for _ in alike) - 1
            ranges.append(Acknowledged(first, last, AcknowledgeType(number)))
            first = last + 1
    return ranges


def _check(batch: AcknowledgementBatch, end: int, *, may_renew: bool) -> None:
    first, last, types = batch
    newest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    if first > last or first < 0:
        problem = "ends before it begins" if first > last else "begins below 0"
    elif first < end:
        problem = "overlaps the batch before it, or comes after a later one"
    elif len(types) not in (1, last - first + 1):
        problem = f"has {len(types)} types: it must have one, or one for each offset"
    elif min(types) < AcknowledgeType.GAP or max(types) > newest:
        problem = f"has a type that is not one from 0 to {newest}"
    else:
        return
    raise KafkaError(ErrorCode.invalid_request, f"acknowledgement of offsets {first} to {last}: it {problem}")
