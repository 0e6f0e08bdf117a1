"""Messages that say that something failed: the bases of the generated classes with an error code."""

from __future__ import annotations

from ..errors import ErrorCode
from .base import Message


class WithError(Message):
    """A response, or a part of one, with an error code of its own."""

    __slots__ = ()
    error_code: ErrorCode


class WithErrorMessage(WithError):
    """A response, or a part of one, with an error code and a sentence that explains it."""

    __slots__ = ()
    error_message: str | None
