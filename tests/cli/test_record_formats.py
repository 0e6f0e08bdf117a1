"""The text of records that `consume` prints, and the records in the lines that `produce` reads."""

from __future__ import annotations

import json

import pytest

from tierfetch.cli.records.formats import Record, as_json, parse_format, split_line

RECORD = Record("orders", 3, 1200, 1_769_860_800_000, b"key", b"value", [("a", b"1"), ("b", None)])
NULLS = Record("orders", 0, 0, None, None, None)


@pytest.mark.parametrize(
    ("template", "record", "text"),
    [
        (r"%s\n", RECORD, b"value\n"),
        (r"%t [%p] %o: %k -> %s", RECORD, b"orders [3] 1200: key -> value"),
        (r"%T %h\0", RECORD, b"1769860800000 a=1,b=\0"),
        (r"100%%\t%K %S\\", RECORD, b"100%\t3 5\\"),
        ("%s|%k|%K|%S|%T|%h", NULLS, b"||-1|-1|-1|"),
        (r"\q", RECORD, rb"\q"),
        ("", RECORD, b""),
    ],
)
def test_formats(template: str, record: Record, text: bytes) -> None:
    assert parse_format(template)(record) == text


@pytest.mark.parametrize("template", ["%", "%x", "%s %"])
def test_a_token_that_there_is_not(template: str) -> None:
    with pytest.raises(ValueError, match="expected one of %t %p %o"):
        parse_format(template)


def test_json() -> None:
    assert json.loads(as_json(RECORD)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 1200,
        "timestamp": 1_769_860_800_000,
        "key": "key",
        "value": "value",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


def test_bytes_that_are_no_text_are_base64_in_json() -> None:
    assert json.loads(as_json(Record("t", 0, 0, 0, b"\xff", None)))["key"] == {"base64": "/w=="}


@pytest.mark.parametrize(
    ("line", "delimiter", "key", "value"),
    [
        (b"a:b:c", b":", b"a", b"b:c"),
        (b"a:b", None, None, b"a:b"),
        (b"ab", b":", None, b"ab"),
        (b":b", b":", b"", b"b"),
        (b"a--b", b"--", b"a", b"b"),
    ],
)
def test_lines(line: bytes, delimiter: bytes | None, key: bytes | None, value: bytes) -> None:
    assert split_line(line, delimiter) == (key, value)
