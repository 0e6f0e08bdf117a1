"""Fields of our own in Kafka's messages: tagged fields, which every other node skips (KIP-482).

| message | tag | field | absent means |
|---|---|---|---|
| BrokerHeartbeat v2 | 10000 | thin_replicas: replicas most of whose log is in the tier only  | all are full |
| Fetch from v12 on, of a partition | 10000 | local_log_start_offset of a follower that is thin | it is full |
| CreatePartitions v3, of a topic | 10000 | remove_last_partitions: a smaller count is meant so | it is a mistake |
| DescribeLogDirs v5, answer, of a partition | 10000 | warming_bytes_left: to come from the tier | it is not warmed |
| the same | 10001 | warming_bytes_per_second | 0 |
| the same | 10002 | warm_in_ms: until the replica, which is thin, counts as warm at the latest | it is full |
| the same | 10003 | is_out_of_service: its log does not let it serve | it serves |
| the same | 10004 | tier_error: why the last copy or upkeep in the tier failed, until one succeeds | none failed |
| DeleteShareGroupState v0 | 10000 | state_epoch of the group that deletes: nothing of it begins again | -1: unknown |
| ApiVersions v3 and v4, answer of a broker | 10000 | incarnation_id: of its process, as registered | it gives none |

Tags from 10000 up are ours; Kafka counts its own from 0. An extended message is a subclass of kio's entity; Fetch has a
codec of its own (`fetch.wire`).
No postponed annotations here: kio looks at the types of fields, not at text.
"""

from collections.abc import Callable
from dataclasses import field, make_dataclass
from typing import ClassVar, Final, TypeVar, get_args
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16
from kio.static.protocol import Entity, Payload

from ..light_dataclass import dataclass

EntityT = TypeVar("EntityT", bound=Entity)

FIRST_TAG: Final = 10_000
NOT_WARMED: Final = -1
NOT_THIN: Final = -1
NO_STATE_EPOCH: Final = -1


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


def extended_request(schema: type[Payload]) -> type[Payload]:
    """Return the request with our fields, or the schema as it is."""
    extend = _REQUESTS.get((schema.__api_key__, schema.__version__))
    return schema if extend is None else extend(schema)


def extended_response(schema: type[Payload]) -> type[Payload]:
    """Return the response with our fields, or the schema as it is."""
    extend = _RESPONSES.get((schema.__api_key__, schema.__version__))
    return schema if extend is None else extend(schema)


def _with_thin_replicas(schema: type[EntityT]) -> type[EntityT]:
    thin = field(metadata={"tag": FIRST_TAG}, default=())
    return _subclass(schema, "thin_replicas", tuple[ThinReplica, ...], thin)


def _with_removal(schema: type[EntityT]) -> type[EntityT]:
    removal = field(metadata={"kafka_type": "bool", "tag": FIRST_TAG}, default=False)
    return _within(schema, ("topics",), lambda topic: _subclass(topic, "remove_last_partitions", bool, removal))


def _with_replica_states(schema: type[EntityT]) -> type[EntityT]:
    left = field(metadata={"kafka_type": "int64", "tag": FIRST_TAG}, default=NOT_WARMED)
    pace = field(metadata={"kafka_type": "int64", "tag": FIRST_TAG + 1}, default=0)
    warm_in = field(metadata={"kafka_type": "int64", "tag": FIRST_TAG + 2}, default=NOT_THIN)
    is_out = field(metadata={"kafka_type": "bool", "tag": FIRST_TAG + 3}, default=False)
    tier_error = field(metadata={"kafka_type": "string", "tag": FIRST_TAG + 4}, default="")

    def extend(partition: type[Entity]) -> type[Entity]:
        warming = _subclass(
            _subclass(partition, "warming_bytes_left", int, left), "warming_bytes_per_second", int, pace
        )
        thin = _subclass(warming, "warm_in_ms", int, warm_in)
        return _subclass(_subclass(thin, "is_out_of_service", bool, is_out), "tier_error", str, tier_error)

    return _within(schema, ("results", "topics", "partitions"), extend)


def _with_state_epoch(schema: type[EntityT]) -> type[EntityT]:
    epoch = field(metadata={"kafka_type": "int32", "tag": FIRST_TAG}, default=NO_STATE_EPOCH)
    return _subclass(schema, "state_epoch", int, epoch)


def _with_incarnation(schema: type[EntityT]) -> type[EntityT]:
    incarnation = field(metadata={"kafka_type": "uuid", "tag": FIRST_TAG}, default=None)
    return _subclass(schema, "incarnation_id", UUID | None, incarnation)


def _within(
    schema: type[EntityT], path: tuple[str, ...], extend: Callable[[type[Entity]], type[Entity]]
) -> type[EntityT]:
    """Return the schema with the entity extended that its arrays lead to; `path` names at least one."""
    array, *rest = path
    (element,) = {item for item in get_args(schema.__dataclass_fields__[array].type) if item is not Ellipsis}
    inner = _within(element, tuple(rest), extend) if rest else extend(element)
    return _subclass(schema, array, tuple[inner, ...], field())  # type: ignore[valid-type]  # made above


def _subclass(base: type[EntityT], name: str, kind: object, value: object) -> type[EntityT]:
    return make_dataclass(base.__name__, [(name, kind, value)], bases=(base,), frozen=True, slots=True, kw_only=True)


_REQUESTS: Final = {(63, 2): _with_thin_replicas, (37, 3): _with_removal, (86, 0): _with_state_epoch}
_RESPONSES: Final = {
    (35, 5): _with_replica_states,
    (18, 3): _with_incarnation,
    (18, 4): _with_incarnation,
}
"""The extended responses, by API key and version."""
