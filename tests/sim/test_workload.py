"""Which answers of a broker clients take, and which end the run."""

from __future__ import annotations

import pytest

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.sim.workload import RETRIABLE, Retries, UnexpectedError


@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_what_a_fault_explains_is_tried_again(code: ErrorCode) -> None:
    Retries.check(KafkaError(code, "because of a fault"))


def test_a_leader_whose_clock_is_far_behind_takes_no_records() -> None:
    assert ErrorCode.invalid_timestamp in RETRIABLE


@pytest.mark.parametrize("code", [ErrorCode.corrupt_message, ErrorCode.invalid_record, ErrorCode.unknown_server_error])
def test_what_no_fault_explains_ends_the_run(code: ErrorCode) -> None:
    with pytest.raises(UnexpectedError, match=code.name):
        Retries.check(KafkaError(code, "for no reason"))
