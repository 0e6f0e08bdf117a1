"""What a consumer may say of its records."""

from __future__ import annotations

import pytest

from tierfetch.broker.share.core.acknowledgements import (
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    acknowledged_ranges,
)
from tierfetch.protocol.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def test_one_type_holds_for_all_and_many_for_one_each() -> None:
    batches = [AcknowledgementBatch(0, 4, [1]), AcknowledgementBatch(5, 9, [1, 1, 0, 3, 2])]
    assert acknowledged_ranges(batches, may_renew=False) == [
        Acknowledged(0, 4, ACCEPT),
        Acknowledged(5, 6, ACCEPT),
        Acknowledged(7, 7, GAP),
        Acknowledged(8, 8, REJECT),
        Acknowledged(9, 9, RELEASE),
    ]


def test_locks_are_renewed_where_the_request_says_so() -> None:
    batch = AcknowledgementBatch(0, 1, [4, 1])
    assert acknowledged_ranges([batch], may_renew=True)[0].type is RENEW
    with pytest.raises(KafkaError, match="a type that is not one"):
        acknowledged_ranges([batch], may_renew=False)


@pytest.mark.parametrize(
    ("batches", "problem"),
    [
        ([AcknowledgementBatch(5, 4, [1])], "ends before"),
        ([AcknowledgementBatch(-1, 4, [1])], "below 0"),
        ([AcknowledgementBatch(0, 4, [1]), AcknowledgementBatch(4, 5, [1])], "overlaps"),
        ([AcknowledgementBatch(6, 7, [1]), AcknowledgementBatch(0, 1, [1])], "after a later one"),
        ([AcknowledgementBatch(0, 4, [])], "0 types"),
        ([AcknowledgementBatch(0, 4, [1, 1])], "2 types"),
        ([AcknowledgementBatch(0, 0, [5])], "a type that is not one"),
        ([AcknowledgementBatch(0, 1, [1, -1])], "a type that is not one"),
    ],
)
def test_what_says_nothing_clear_is_invalid(batches: list[AcknowledgementBatch], problem: str) -> None:
    with pytest.raises(KafkaError, match=problem) as raised:
        acknowledged_ranges(batches, may_renew=True)
    assert raised.value.code is ErrorCode.invalid_request
