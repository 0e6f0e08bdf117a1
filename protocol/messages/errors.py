"""Where responses, and parts of them, say that something failed."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..errors import ErrorCode


@runtime_checkable
class WithError(Protocol):
    """A response, or a part of one, with an error code of its own."""

    @property
    def error_code(self) -> ErrorCode: ...


@runtime_checkable
class WithErrorMessage(WithError, Protocol):
    """The same, with a sentence that explains the code."""

    @property
    def error_message(self) -> str | None: ...
