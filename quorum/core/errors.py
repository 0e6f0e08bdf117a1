"""The errors of an append, and of a replica as a whole."""

from __future__ import annotations

from ...protocol import ErrorCode, KafkaError, OperatorError


class NotLeaderError(KafkaError):
    """This replica does not lead the epoch of the append, or no longer. The records may still be committed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.not_controller, message)


class BufferFullError(KafkaError):
    """Too many bytes wait for the log or the high watermark; retriable, nothing was appended."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.throttling_quota_exceeded, message)


class UnexpectedOffsetError(KafkaError):
    """Another record was appended first; nothing of this append was."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.request_timed_out, message)


class QuorumFailedError(OperatorError):
    """The replica has stopped for good; the message says why, and what an operator can do."""


class QuorumStartError(OperatorError):
    """The replica cannot start; the message is for its operator."""
