"""Kafka's error codes, and the exception family "the peer's fault": a code goes back on the wire."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["CorruptRecordError", "ErrorCode", "KafkaError", "told"]


MESSAGE_MAX: Final = 2_000
"""Characters. What a request names may be as long as a string can be, and stands in the message: the response would not
hold it.
"""


class KafkaError(Exception):
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
        """The same fault seen from a larger whole, in which the batch begins at `position`."""
        return CorruptRecordError(self.reason, position)


def told(error: Exception) -> str:
    """For the log; a deadline's error says nothing by itself."""
    return str(error) or type(error).__name__
