"""How a metadata record is declared, and how each of its versions becomes an entity that kio reads and writes.

kio ships schemas for requests only. A record is declared once, with all fields of its newest version; `since` says in
which version a field came, `tag` that it is a tagged field (KIP-482):

    @metadata_record(api_key=2)
    class TopicRecord(MetadataRecord):
        name: str = string()
        topic_id: UUID | None = uuid()

`entity_type(TopicRecord, 0)` is the class of that version. Where it has all fields it is the record itself, so that
reading makes no copy. Sources of names, types and tags: `common/metadata/*.json` of Apache Kafka 4.3.

Rules of the modules that declare records: no `from __future__ import annotations` (kio looks at the types of fields,
not at text), and None for the zero uuid, which kio does not distinguish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from functools import cache
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform, get_origin

from kio.static.constants import EntityType
from kio.static.primitive import i16

from ...light_dataclass import dataclass

_REQUIRED: Final = MISSING


class MetadataRecord:
    """What all records have; the class variables but `api_key` and `newest_version` are kio's."""

    __slots__: tuple[str, ...] = ()
    api_key: ClassVar[int]
    newest_version: ClassVar[int]
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[i16]
    __flexible__: ClassVar[bool] = True
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    """What `metadata_record` adds."""


# Any, as `dataclasses.field` without a default has it: the type of a field is what its annotation says.
def _specifier(kafka_type: str) -> Callable[..., Any]:
    def specify(*, since: int = 0, tag: int | None = None, default: object = _REQUIRED) -> Any:
        metadata: dict[str, object] = {"kafka_type": kafka_type, "since": since}
        if tag is not None:
            metadata["tag"] = tag
        return field(metadata=metadata, default=default)

    return specify


int8 = _specifier("int8")
int16 = _specifier("int16")
int32 = _specifier("int32")
int64 = _specifier("int64")
uint16 = _specifier("uint16")
float64 = _specifier("float64")
boolean = _specifier("bool")
string = _specifier("string")
binary = _specifier("bytes")
uuid = _specifier("uuid")


def array() -> Any:
    """An array of structures."""
    return field(metadata={"since": 0})


_Record = TypeVar("_Record", bound=MetadataRecord)
record_types: dict[int, type[MetadataRecord]] = {}
"""The declared record types by API key."""


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, float64, boolean, string, binary, uuid, array),
)
def metadata_record(*, api_key: int, newest_version: int = 0) -> Callable[[type[_Record]], type[_Record]]:
    def declare(cls: type[_Record]) -> type[_Record]:
        record: type[_Record] = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        record.api_key = api_key
        record.newest_version = newest_version
        record.__version__ = i16(newest_version)
        assert api_key not in record_types, f"{cls.__name__} and {record_types[api_key].__name__} have key {api_key}"
        record_types[api_key] = record
        return record

    return declare


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(int8, int16, int32, int64, uint16, float64, boolean, string, binary, uuid, array),
)
def structure(cls: type[_Record]) -> type[_Record]:
    """What arrays inside records consist of; the same in all versions."""
    nested: type[_Record] = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    nested.__version__ = i16(0)
    return nested


@cache
def entity_type(api_key: int, version: int) -> type[MetadataRecord]:
    """Return kio's entity of one version of a record."""
    record_type = record_types[api_key]
    assert 0 <= version <= record_type.newest_version, (record_type, version)
    present = [item for item in record_fields(record_type) if item.metadata["since"] <= version]
    if len(present) == len(record_fields(record_type)):
        return record_type
    return make_dataclass(
        record_type.__name__,
        [(item.name, item.type, field(metadata=item.metadata, default=item.default)) for item in present],
        bases=(MetadataRecord,),
        namespace={"__version__": i16(version)},
        frozen=True,
        slots=True,
        kw_only=True,
    )


@cache
def newer_fields(api_key: int) -> tuple[tuple[int, str, object], ...]:
    """`(since, name, value that says nothing)` of the fields that the oldest version lacks, the newest first."""
    newer = [item for item in record_fields(record_types[api_key]) if item.metadata["since"] > 0]
    newest_first = sorted(newer, key=lambda item: -item.metadata["since"])
    return tuple((item.metadata["since"], item.name, absent_value(item)) for item in newest_first)


def absent_value(item: Field[object]) -> object:
    """What a field says in a version that lacks it."""
    if item.default is not MISSING:
        return item.default
    return () if get_origin(item.type) is tuple else None


def record_fields(record_type: type[MetadataRecord]) -> tuple[Field[object], ...]:
    """Return the fields of a declared record; `metadata_record` has made it a dataclass."""
    return fields(record_type)
