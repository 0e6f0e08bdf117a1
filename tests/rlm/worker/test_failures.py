"""What a plugin raises in the worker is raised in the broker."""

from __future__ import annotations

import asyncio
import errno

import pytest

from tierfetch.remote import (
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    RemoteStorageTimeoutError,
)
from tierfetch.rlm.checked_source import DamagedSegmentError
from tierfetch.rlm.worker.failures import PluginCrashError, error_of, failure_of


class OwnError(RemoteStorageRefusedError):
    """One that a plugin made, and whose arguments are no message."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (RemoteStorageError("away"), RemoteStorageError),
        (RemoteStorageTimeoutError("late"), RemoteStorageTimeoutError),
        (RemoteStorageRefusedError("no bucket"), RemoteStorageRefusedError),
        (RemoteResourceNotFoundError("absent"), RemoteResourceNotFoundError),
        (RemoteStorageCorruptError("short"), RemoteStorageCorruptError),
        (OwnError(7), RemoteStorageRefusedError),
        (DamagedSegmentError(errno.EIO, "damaged", "00.log"), DamagedSegmentError),
        (OSError(errno.ENOSPC, "full", "00.log"), OSError),
        (FileNotFoundError(errno.ENOENT, "absent", "00.log"), FileNotFoundError),
        (OSError("no number"), OSError),
    ],
)
def test_R1_an_error_keeps_its_class_and_its_text(raised: Exception, kind: type[Exception]) -> None:
    found = error_of(failure_of(3, raised))
    assert type(found) is kind
    assert str(found) == str(raised)


def test_an_error_that_no_plugin_should_raise_is_an_internal_one() -> None:
    found = error_of(failure_of(3, ZeroDivisionError("by nothing")))
    assert type(found) is PluginCrashError
    assert "ZeroDivisionError: by nothing" in str(found)


def test_a_call_that_was_cancelled_there_is_no_cancellation_here() -> None:
    assert type(error_of(failure_of(3, asyncio.CancelledError()))) is RemoteStorageError
