"""Authentication, and the credentials of users. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message


@message
class SaslHandshakeResponse(Message):
    """Version 1."""

    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


@message
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Version 1."""

    api_key: ClassVar[int] = 17
    mechanism: str


@message
class SaslAuthenticateResponse(Message):
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int = 0  # Versions 1 to 2.


@message
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 36
    auth_bytes: bytes


@message
class CredentialInfo(Message):
    """Version 0."""

    mechanism: int
    iterations: int


@message
class DescribeUserScramCredentialsResult(Message):
    """Version 0."""

    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]


@message
class DescribeUserScramCredentialsResponse(Message):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]


@message
class UserName(Message):
    """Version 0."""

    name: str


@message
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 50
    users: tuple[UserName, ...] | None


@message
class AlterUserScramCredentialsResult(Message):
    """Version 0."""

    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class AlterUserScramCredentialsResponse(Message):
    """Version 0."""

    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...]


@message
class ScramCredentialDeletion(Message):
    """Version 0."""

    name: str
    mechanism: int


@message
class ScramCredentialUpsertion(Message):
    """Version 0."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@message
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 51
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]
