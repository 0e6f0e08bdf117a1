"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

from __future__ import annotations

from random import Random

import pytest

from tierfetch.controller.core.config import ControllerConfig
from tierfetch.controller.core.security.scram import alter_user_scram_credentials, describe_user_scram_credentials
from tierfetch.controller.core.state import ControllerState
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tierfetch.security.core.scram_credential import ScramType

SALT = b"0123456789abcdef"


@pytest.fixture
def state() -> ControllerState:
    return ControllerState(ControllerConfig(cluster_id="c", node_id=1), Random(1))


def upsert(name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = SALT) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"salted"
    )


def alter(state: ControllerState, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, ErrorCode]:
    """Decide, replay, and return the error of each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(item for item in changes if isinstance(item, ScramCredentialDeletion)),
        upsertions=tuple(item for item in changes if isinstance(item, ScramCredentialUpsertion)),
    )
    result = alter_user_scram_credentials(state, request)
    for record in result.records:
        state.image.replay(record)
    return {answer.user: answer.error_code for answer in result.response.results}


def described(state: ControllerState, *users: str) -> dict[str, tuple[ErrorCode, tuple[CredentialInfo, ...]]]:
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=user) for user in users) or None)
    response = describe_user_scram_credentials(state.image.scram, request)
    return {item.user: (item.error_code, item.credential_infos) for item in response.results}


def test_credentials_come_and_go(state: ControllerState) -> None:
    assert alter(state, upsert("alice"), upsert("alice", 2, 8192), upsert("bob")) == {
        "alice": ErrorCode.none,
        "bob": ErrorCode.none,
    }
    both = (CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=2, iterations=8192))
    assert described(state) == {"alice": (ErrorCode.none, both), "bob": (ErrorCode.none, both[:1])}
    assert len(list(snapshot_records(state.image))) == 3
    assert alter(state, ScramCredentialDeletion(name="alice", mechanism=1)) == {"alice": ErrorCode.none}
    assert described(state, "alice") == {"alice": (ErrorCode.none, both[1:])}
    assert state.image.scram.get("alice", ScramType.SCRAM_SHA_256) is None
    assert len(list(snapshot_records(state.image))) == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([upsert("")], ErrorCode.unacceptable_credential),
        ([upsert("alice", iterations=4095)], ErrorCode.unacceptable_credential),
        ([upsert("alice", iterations=16385)], ErrorCode.unacceptable_credential),
        ([upsert("alice", salt=b"short")], ErrorCode.unacceptable_credential),
        ([upsert("alice", mechanism=0)], ErrorCode.unsupported_sasl_mechanism),
        ([upsert("alice", mechanism=3)], ErrorCode.unsupported_sasl_mechanism),
        ([upsert("alice"), upsert("alice")], ErrorCode.duplicate_resource),
        ([upsert("alice"), ScramCredentialDeletion(name="alice", mechanism=1)], ErrorCode.duplicate_resource),
        ([ScramCredentialDeletion(name="alice", mechanism=1)], ErrorCode.resource_not_found),
        ([upsert("alice", 2), upsert("alice", iterations=1)], ErrorCode.unacceptable_credential),
    ],
)
def test_a_user_is_refused_as_a_whole(
    state: ControllerState, changes: list[ScramCredentialUpsertion], error: ErrorCode
) -> None:
    assert alter(state, *changes, upsert("other")) == {changes[0].name: error, "other": ErrorCode.none}
    assert list(described(state)) == ["other"]


def test_unknown_and_doubled_users(state: ControllerState) -> None:
    alter(state, upsert("alice"))
    assert described(state, "bob") == {"bob": (ErrorCode.resource_not_found, ())}
    assert described(state, "alice", "alice") == {"alice": (ErrorCode.duplicate_resource, ())}
