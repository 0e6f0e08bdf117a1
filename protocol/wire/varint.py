"""Variable-length integers as Kafka writes them: base 128, low group first; signed ones zig-zag encoded.

Readers take a buffer whose items are integers and a position, and return `(value, next position)`. They raise
IndexError where the buffer ends early and ValueError where the integer is wider than its type: callers say what it
was. Non-minimal encodings (trailing zero groups within the width) are legal, as in Kafka.
"""

from __future__ import annotations

_BITS_INT = 32
_BITS_LONG = 64

Buffer = bytes | bytearray | memoryview


def read_uvarint(data: Buffer, position: int, bits: int = _BITS_INT) -> tuple[int, int]:
    """An unsigned integer of at most `bits` bits."""
    value = shift = 0
    while (byte := data[position]) > 0x7F:
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if shift >= bits:
            raise ValueError(f"variable-length integer wider than {bits} bits")
    value |= byte << shift
    if value >> bits:
        raise ValueError(f"variable-length integer wider than {bits} bits")
    return value, position + 1


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag encoded int32."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        value = second << 7 | byte & 0x7F
        return (value >> 1) ^ -(value & 1), position + 2
    value, position = read_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag encoded int64."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_uvarint(data, position, _BITS_LONG)
    return (value >> 1) ^ -(value & 1), position


def write_uvarint(out: bytearray, value: int) -> None:
    """Append a non-negative integer."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed integer (int32 or int64: the width only limits readers)."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    if value < 0x80:
        out.append(value)
    else:
        write_uvarint(out, value)
