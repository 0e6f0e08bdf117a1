r"""Records as text, in kcat's notation: `--format 'offset %o: %k -> %s\n'`. Pure.

| token | |
|---|---|
| `%t` `%p` `%o` | topic, partition, offset |
| `%k` `%s` | key, value; nothing where it is null |
| `%K` `%S` | size of the key, of the value; -1 where it is null |
| `%T` | timestamp in milliseconds |
| `%h` | headers, as `a=1,b=2` |
| `%%` `\n` `\t` `\0` `\\` | these characters |
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final

from ...light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. `timestamp_ms` is None where the topic has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


Formatter = Callable[[Record], bytes]

_TOKENS: Final[dict[str, Formatter]] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%k": lambda record: record.key or b"",
    "%s": lambda record: record.value or b"",
    "%K": lambda record: b"%d" % _size(record.key),
    "%S": lambda record: b"%d" % _size(record.value),
    "%T": lambda record: b"%d" % (-1 if record.timestamp_ms is None else record.timestamp_ms),
    "%h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "%%": lambda _: b"%",
}
_ESCAPES: Final = {r"\n": b"\n", r"\t": b"\t", r"\r": b"\r", r"\0": b"\0", r"\\": b"\\"}
_PIECES: Final = re.compile(r"%.|\\.|[^%\\]+|[%\\]", re.DOTALL)


def parse_format(text: str) -> Formatter:
    """Return the formatter of a text with tokens. ValueError names a token that there is not."""
    pieces: list[Formatter] = []
    for piece in _PIECES.findall(text):
        if piece[0] == "%":
            if piece not in _TOKENS:
                raise ValueError(f"{piece!r}: expected one of {' '.join(_TOKENS)}")
            pieces.append(_TOKENS[piece])
        else:
            pieces.append(_constant(_ESCAPES.get(piece, piece.encode())))
    return lambda record: b"".join(piece(record) for piece in pieces)


def as_json(record: Record) -> bytes:
    """Return one line of JSON. Bytes that are no UTF-8 are `{"base64": ...}`."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": name, "value": _text(value)} for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def split_line(line: bytes, delimiter: bytes | None) -> tuple[bytes | None, bytes]:
    """Return key and value of a line without its end. Without the delimiter in it, all of it is the value."""
    if delimiter is None:
        return None, line
    key, found, value = line.partition(delimiter)
    return (key, value) if found else (None, line)


def _constant(text: bytes) -> Formatter:
    return lambda _: text


def _size(text: bytes | None) -> int:
    return -1 if text is None else len(text)


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
