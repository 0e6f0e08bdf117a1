"""What comes from outside, and what an error is described by."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tierfetch.protocol.errors import (
    OUTSIDE,
    CorruptRecordError,
    ErrorCode,
    InternalError,
    KafkaError,
    OperatorError,
    PeerError,
    RetriableError,
    describe_error,
)


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.not_controller), CorruptRecordError("x"), TimeoutError(), RetriableError("x")]
)
def test_what_comes_from_outside(error: Exception) -> None:
    assert isinstance(error, OUTSIDE)


@pytest.mark.parametrize(
    "error", [OperatorError("x"), InternalError("x"), PeerError("x"), ValueError(), AssertionError()]
)
def test_what_does_not(error: Exception) -> None:
    assert not isinstance(error, OUTSIDE)


def test_an_error_without_a_message_is_described_by_its_class() -> None:
    assert describe_error(TimeoutError()) == "TimeoutError"
    assert describe_error(KafkaError(ErrorCode.not_controller, "ask 2")) == "NOT_CONTROLLER: ask 2"


def test_kio_imports_no_hypothesis_and_a_test_still_can() -> None:
    code = "import sys, tierfetch.protocol; print('hypothesis' in sys.modules); import hypothesis.strategies"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
