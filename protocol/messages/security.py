"""Authentication, the credentials of users, and their rights. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class SaslHandshakeResponse(WithError):
    """Version 1."""

    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


@message
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Version 1."""

    api_key: ClassVar[int] = 17
    mechanism: str


@message
class SaslAuthenticateResponse(WithErrorMessage):
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
class DescribeUserScramCredentialsResult(WithErrorMessage):
    """Version 0."""

    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]


@message
class DescribeUserScramCredentialsResponse(WithErrorMessage):
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
class AlterUserScramCredentialsResult(WithErrorMessage):
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


@message
class AclDescription(Message):
    """Versions 1 to 3."""

    principal: str
    host: str
    operation: int
    permission_type: int


@message
class DescribeAclsResource(Message):
    """Versions 1 to 3."""

    resource_type: int
    resource_name: str
    pattern_type: int = 3
    acls: tuple[AclDescription, ...]


@message
class DescribeAclsResponse(WithErrorMessage):
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]


@message
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Versions 1 to 3."""

    api_key: ClassVar[int] = 29
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@message
class AclCreationResult(WithErrorMessage):
    """Versions 1 to 3."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class CreateAclsResponse(Message):
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...]


@message
class AclCreation(Message):
    """Versions 1 to 3."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@message
class CreateAclsRequest(Request[CreateAclsResponse]):
    """Versions 1 to 3."""

    api_key: ClassVar[int] = 30
    creations: tuple[AclCreation, ...]


@message
class DeleteAclsMatchingAcl(WithErrorMessage):
    """Versions 1 to 3."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@message
class DeleteAclsFilterResult(WithErrorMessage):
    """Versions 1 to 3."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@message
class DeleteAclsResponse(Message):
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...]


@message
class DeleteAclsFilter(Message):
    """Versions 1 to 3."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@message
class DeleteAclsRequest(Request[DeleteAclsResponse]):
    """Versions 1 to 3."""

    api_key: ClassVar[int] = 31
    filters: tuple[DeleteAclsFilter, ...]
