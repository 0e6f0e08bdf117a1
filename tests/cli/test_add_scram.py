"""`tierfetch format --add-scram`."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tierfetch.cli.add_scram import scram_record
from tierfetch.controller.records import UserScramCredentialRecord, decode_record
from tierfetch.security.core.scram import make_credential
from tierfetch.security.core.scram_credential import ScramType

SALT = b"0123456789abcdef"
SALT_TEXT = b64encode(SALT).decode()


@pytest.mark.parametrize(
    ("text", "name", "type_", "iterations"),
    [
        (f"SCRAM-SHA-256=[name=alice,password=pencil,salt={SALT_TEXT}]", "alice", ScramType.SCRAM_SHA_256, 4096),
        (
            f'SCRAM-SHA-512=[name="a,b",iterations=8192,password="pencil",salt="{SALT_TEXT}"]',
            "a,b",
            ScramType.SCRAM_SHA_512,
            8192,
        ),
    ],
)
def test_what_is_understood(text: str, name: str, type_: ScramType, iterations: int) -> None:
    record = decode_record(scram_record(text)).record
    made = make_credential(type_, "pencil", SALT, iterations)
    assert record == UserScramCredentialRecord(
        name=name,
        mechanism=type_,
        salt=SALT,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PLAIN=[name=alice,password=hunter2]",
        "SCRAM-SHA-256=name=alice,password=hunter2",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,saltedpassword=aGk=]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=aGk=]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,iterations=100]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,salt=%%]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,colour=red]",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--add-scram: ") as refused:
        scram_record(text)
    assert "hunter2" not in str(refused.value)
