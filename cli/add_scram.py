"""`tierfetch format --add-scram`: credentials that a new cluster begins with, in the syntax of Kafka's tool.

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt=MWx2...,saltedpassword=mT0y...]      both in base64
"""

from __future__ import annotations

import binascii
import re
import secrets
from base64 import b64decode
from typing import Final

from ..controller import scram_record_of
from ..controller.records import encode_record
from ..security.core import (
    SCRAM_ITERATIONS_MAX,
    SCRAM_ITERATIONS_MIN,
    SCRAM_SALT_BYTES,
    ScramType,
    credential_of_salted_password,
    make_credential,
)

OPTION: Final = "--add-scram"
_ARGUMENT = re.compile(r"(?P<mechanism>SCRAM-SHA-(?:256|512))=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD = re.compile(r"(?:^|,)(name|password|iterations|salt|saltedpassword)=(\"(?:[^\"])*\"|[^,]*)")


def scram_record(text: str) -> bytes:
    """Return the metadata record of one --add-scram. ValueError says what was expected; no password is repeated."""
    match = _ARGUMENT.fullmatch(text.strip())
    fields = dict(_FIELD.findall(match["fields"])) if match is not None else {}
    if match is None or _FIELD.sub("", match["fields"]):
        raise ValueError(f"{OPTION}: expected SCRAM-SHA-256=[name=NAME,password=PASSWORD], or SCRAM-SHA-512")
    fields = {key: value.strip('"') for key, value in fields.items()}
    type_ = ScramType.of(match["mechanism"])
    assert type_ is not None, match["mechanism"]
    name, password, salted = (fields.get(key, "") for key in ("name", "password", "saltedpassword"))
    if not name or bool(password) == bool(salted):
        raise ValueError(f"{OPTION}: expected name=, and one of password= and saltedpassword=")
    iterations = fields.get("iterations", str(SCRAM_ITERATIONS_MIN))
    if not iterations.isdecimal() or not SCRAM_ITERATIONS_MIN <= int(iterations) <= SCRAM_ITERATIONS_MAX:
        raise ValueError(f"{OPTION}: expected iterations from {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}")
    if salted and "salt" not in fields:
        raise ValueError(f"{OPTION}: saltedpassword= needs the salt= that it was made with")
    salt = _bytes(fields["salt"], "salt") if "salt" in fields else secrets.token_bytes(SCRAM_SALT_BYTES)
    if salted:
        password_bytes = _bytes(salted, "saltedpassword")
        credential = credential_of_salted_password(type_, password_bytes, salt, int(iterations))
    else:
        credential = make_credential(type_, password, salt, int(iterations))
    return encode_record(scram_record_of(name, type_, credential))


def _bytes(text: str, field: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{OPTION}: expected {field}= in base64") from None
