"""Fields of our own in Kafka's requests: tagged fields, which every other node skips (KIP-482).

| request | tag | field | absent means |
|---|---|---|---|
| BrokerHeartbeat v2 | 10000 | thin_replicas: replicas most of whose log lies in the tier only | all are full |
| CreatePartitions v3, of a topic | 10000 | remove_last_partitions: a smaller count is meant so | it is a mistake |

Tags from 10000 up are ours; Kafka counts its own from 0. An extended request is a subclass of kio's entity.
No postponed annotations here: kio looks at the types of fields, not at text.
"""

from dataclasses import dataclass, field, make_dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

FIRST_TAG: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinReplica:
    """What a broker says of one of its replicas. `local_start_offset`, `local_bytes`: where its local log begins and
    how much that is; `age_ms`: since when it is like that.
    """

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    partition_index: int = field(metadata={"kafka_type": "int32"})
    local_start_offset: int = field(metadata={"kafka_type": "int64"})
    local_bytes: int = field(metadata={"kafka_type": "int64"})
    age_ms: int = field(metadata={"kafka_type": "int64"})


def thin_replica(topic_id: UUID, partition: int, local_start_offset: int, local_bytes: int, age_ms: int) -> ThinReplica:
    return ThinReplica(
        topic_id=topic_id,
        partition_index=partition,
        local_start_offset=local_start_offset,
        local_bytes=local_bytes,
        age_ms=age_ms,
    )


def extended_request(schema: type[Any]) -> type[Any]:
    """The request with our fields, or the schema as it is."""
    extend = _EXTENSIONS.get((schema.__api_key__, schema.__version__))
    return schema if extend is None else extend(schema)


def _with_thin_replicas(schema: type[Any]) -> type[Any]:
    thin = field(metadata={"tag": FIRST_TAG}, default=())
    return _subclass(schema, "thin_replicas", tuple[ThinReplica, ...], thin)


def _with_removal(schema: type[Any]) -> type[Any]:
    (topics,) = (item for item in schema.__dataclass_fields__.values() if item.name == "topics")
    (topic,) = {item for item in topics.type.__args__ if item is not Ellipsis}
    removal = field(metadata={"kafka_type": "bool", "tag": FIRST_TAG}, default=False)
    removing = _subclass(topic, "remove_last_partitions", bool, removal)
    return _subclass(schema, "topics", tuple[removing, ...], field())  # type: ignore[valid-type]  # made above


def _subclass(base: type[Any], name: str, kind: Any, value: Any) -> type[Any]:
    return make_dataclass(base.__name__, [(name, kind, value)], bases=(base,), frozen=True, slots=True, kw_only=True)


_EXTENSIONS: Final = {(63, 2): _with_thin_replicas, (37, 3): _with_removal}
"""By API key and version."""
