"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554, KIP-900).

Each user is done, or refused, as a whole: one bad change of a user leaves all its credentials as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ....protocol import ErrorCode, KafkaError
from ....protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ....security.core import (
    SCRAM_ITERATIONS_MAX,
    SCRAM_ITERATIONS_MIN,
    SCRAM_SALT_BYTES_MIN,
    ScramCredential,
    ScramCredentials,
    ScramType,
    credential_of_salted_password,
)
from ...records import MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ..state import ControllerResult, ControllerState

Change = ScramCredentialDeletion | ScramCredentialUpsertion

_TYPES: Final = frozenset(map(int, ScramType))


def alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Set and remove credentials."""
    changes: dict[str, list[Change]] = {}
    all_changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in all_changes:
        changes.setdefault(change.name, []).append(change)
    records: list[MetadataRecord] = []
    results: list[AlterUserScramCredentialsResult] = []
    for user, of_user in changes.items():
        try:
            records += _changed(state.image.scram, user, of_user)
        except KafkaError as error:
            results.append(
                AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            )
        else:
            results.append(AlterUserScramCredentialsResult(user=user, error_message=None))
    return ControllerResult(records, AlterUserScramCredentialsResponse(results=tuple(results)))


def _changed(known: ScramCredentials, user: str, changes: list[Change]) -> list[MetadataRecord]:
    """Return the records that change a user's credentials. KafkaError if one of the changes is wrong."""
    if max(Counter(change.mechanism for change in changes).values()) > 1:
        raise KafkaError(ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
    return [_record(known, user, change) for change in changes]


def _record(known: ScramCredentials, user: str, change: Change) -> MetadataRecord:
    if not user:
        raise KafkaError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if change.mechanism not in _TYPES:
        raise KafkaError(ErrorCode.unsupported_sasl_mechanism, f"Unknown SCRAM mechanism {change.mechanism}")
    type_ = ScramType(change.mechanism)
    if isinstance(change, ScramCredentialDeletion):
        if known.get(user, type_) is None:
            raise KafkaError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=user, mechanism=type_)
    _check(change)
    credential = credential_of_salted_password(type_, change.salted_password, change.salt, change.iterations)
    return scram_record_of(user, type_, credential)


def _check(change: ScramCredentialUpsertion) -> None:
    limits = ((change.iterations < SCRAM_ITERATIONS_MIN, "few"), (change.iterations > SCRAM_ITERATIONS_MAX, "many"))
    for is_beyond, word in limits:
        if is_beyond:
            raise KafkaError(
                ErrorCode.unacceptable_credential,
                f"Too {word} iterations: expected {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}, "
                f"found {change.iterations}",
            )
    if len(change.salt) < SCRAM_SALT_BYTES_MIN:
        raise KafkaError(
            ErrorCode.unacceptable_credential,
            f"The salt has {len(change.salt)} bytes: expected {SCRAM_SALT_BYTES_MIN}",
        )
    if not change.salted_password:
        raise KafkaError(ErrorCode.unacceptable_credential, "The salted password must not be empty")


def scram_record_of(user: str, type_: ScramType, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record that sets a credential."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=type_,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def describe_user_scram_credentials(
    known: ScramCredentials, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return which credentials users have, never the credentials themselves; no users named: those of all."""
    names = [item.name for item in request.users or ()] or list(known.users())
    return DescribeUserScramCredentialsResponse(error_message=None, results=tuple(_described(known, names)))


def _described(known: ScramCredentials, names: list[str]) -> Iterator[DescribeUserScramCredentialsResult]:
    counts = Counter(names)
    for name in counts:
        found = known.of_user(name)
        error, message = ErrorCode.none, None
        if counts[name] > 1:
            error = ErrorCode.duplicate_resource
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif not found:
            error = ErrorCode.resource_not_found
            message = f"Attempt to describe a user credential that does not exist: {name}"
        yield DescribeUserScramCredentialsResult(
            user=name,
            error_code=error,
            error_message=message,
            credential_infos=()
            if error is not ErrorCode.none
            else tuple(CredentialInfo(mechanism=type_, iterations=item.iterations) for type_, item in found.items()),
        )
