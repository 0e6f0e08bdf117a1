"""Kafka's error codes, and the families that every exception of tierfetch belongs to.

| whose fault | class | what is done about it |
|---|---|---|
| the peer's | `PeerError`; `KafkaError`, where a request can be answered | the code goes back, or the connection ends |
| outside | `RetriableError`, and Python's own `OSError` | one line in the log; tried again, with back-off and a limit |
| the person's who configured or asked | `OperatorError` | the message says what to do; trying again is of no use |
| our own | `InternalError`, and Python's own `AssertionError` | logged with its trace; the work at hand ends |

`except OUTSIDE` is how a task, or a call to another node or to a disk, distinguishes what is expected from a bug.
"""

from __future__ import annotations

from typing import Final

from ..errors import InternalError, OperatorError, PeerError, RetriableError
from .error_codes import ErrorCode

__all__ = [
    "OUTSIDE",
    "CorruptRecordError",
    "ErrorCode",
    "InternalError",
    "KafkaError",
    "OperatorError",
    "PeerError",
    "RetriableError",
    "describe_error",
]


MESSAGE_MAX: Final = 2_000
"""Characters. What a request names may be as long as a string can be, and stands in the message: the response would not
hold it.
"""


class KafkaError(PeerError):
    """A request that cannot be served. `code` goes back to the peer, the message into `ErrorMessage` where there is
    one; of a long one its two ends.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > MESSAGE_MAX:
            message = f"{message[: MESSAGE_MAX // 2]} ... {message[-MESSAGE_MAX // 2 :]}"
        super().__init__(f"{code.name.upper()}: {message}" if message else code.name.upper())
        self.code = code
        self.message = message


class CorruptRecordError(KafkaError):
    """Bytes that are no valid record batch (CORRUPT_MESSAGE, 2). `position` is the batch's first byte."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(ErrorCode.corrupt_message, f"{message} (batch at byte {position})")
        self.reason = message
        self.position = position

    def at(self, position: int) -> CorruptRecordError:
        """Return the fault as seen from a larger whole, in which the batch begins at `position`."""
        return CorruptRecordError(self.reason, position)


OUTSIDE: Final = (RetriableError, KafkaError, OSError)
"""What does not come from a bug of ours: the peer refused, or I/O failed. `OSError` is Python's and has no other base;
`TimeoutError` is one of it.
"""


def describe_error(error: Exception) -> str:
    """Return the error's message, or its class where it has none: a deadline's error has none."""
    return str(error) or type(error).__name__
