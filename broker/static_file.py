"""The static cluster file: YAML that people write and brokers change, to and from a `StaticState`.

    cluster_id: <22 characters>
    brokers: [{id: 1, host: 127.0.0.1, port: 9092, rack: null, directory_ids: [<22 characters>], fenced: false}]
    topics:
    - {name: t, topic_id: <22 characters>, configs: {}, partitions: [{partition: 0, leader: 1, leader_epoch: 0,
       partition_epoch: 0, replicas: [1, 2], isr: [1, 2]}]}
    broker_configs: {default: {}, "1": {}}
    next_producer_id: 0

Only `cluster_id` is required. Comments do not survive a change made by a broker. What is wrong is a
`ClusterFileError` with one line for each problem, naming the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self
from uuid import UUID

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    field_validator,
    model_validator,
)

from ..protocol.topics import check_topic_name, uuid_from_text, uuid_to_text
from .cluster_view import NO_LEADER, BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage


class ClusterFileError(ValueError):
    """The text is no cluster file."""


@dataclass(frozen=True, slots=True)
class StaticState:
    """All that the file holds."""

    image: ClusterImage
    next_producer_id: int = 0


def _uuid(value: object) -> object:
    return uuid_from_text(value) if isinstance(value, str) else value


def _text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


KafkaUuid = Annotated[UUID, BeforeValidator(_uuid), PlainSerializer(uuid_to_text)]
Natural = Annotated[int, Field(ge=0)]
ConfigValue = Annotated[str, BeforeValidator(_text)]
"""YAML reads `true` and `10` as other types than text; Kafka's configs are text."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _Broker(_Entry):
    id: Natural
    host: str
    port: Annotated[int, Field(ge=1, le=65535)]
    rack: str | None = None
    directory_ids: tuple[KafkaUuid, ...] = ()
    fenced: bool = False


class _Partition(_Entry):
    partition: Natural
    leader: Annotated[int, Field(ge=NO_LEADER)]
    leader_epoch: Natural = 0
    partition_epoch: Natural = 0
    replicas: Annotated[tuple[Natural, ...], Field(min_length=1)]
    isr: tuple[Natural, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.replicas)) != len(self.replicas):
            raise ValueError(f"replicas {list(self.replicas)} name a broker twice")
        if not set(self.isr) <= set(self.replicas):
            raise ValueError(f"isr {list(self.isr)} must be among replicas {list(self.replicas)}")
        if self.leader != NO_LEADER and self.leader not in self.isr:
            raise ValueError(f"leader {self.leader} must be in isr {list(self.isr)}, or {NO_LEADER} for none")
        return self


class _Topic(_Entry):
    name: str
    topic_id: KafkaUuid
    configs: dict[str, ConfigValue] = Field(default_factory=dict)
    partitions: Annotated[tuple[_Partition, ...], Field(min_length=1)]

    @field_validator("name")
    @classmethod
    def _legal_name(cls, name: str) -> str:
        check_topic_name(name)
        return name

    @model_validator(mode="after")
    def _numbered_from_zero(self) -> Self:
        numbers = [entry.partition for entry in self.partitions]
        if numbers != list(range(len(numbers))):
            raise ValueError(f"partitions of {self.name!r} are numbered {numbers}; expected 0, 1, 2 and so on")
        return self


class _ClusterFile(_Entry):
    cluster_id: KafkaUuid
    brokers: tuple[_Broker, ...] = ()
    topics: tuple[_Topic, ...] = ()
    broker_configs: dict[ConfigValue, dict[str, ConfigValue]] = Field(default_factory=dict)
    next_producer_id: Natural = 0

    @model_validator(mode="after")
    def _unique(self) -> Self:
        for what, values in (
            ("broker id", [str(broker.id) for broker in self.brokers]),
            ("topic name", [topic.name for topic in self.topics]),
            ("topic_id", [uuid_to_text(topic.topic_id) for topic in self.topics]),
        ):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]!r} occurs twice")
        return self


def decode(content: bytes) -> StaticState:
    """Parse and check the file's bytes."""
    try:
        raw: Any = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ClusterFileError(f"not YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ClusterFileError("expected a mapping with cluster_id, brokers and topics")
    try:
        parsed = _ClusterFile.model_validate(raw)
    except ValidationError as error:
        raise ClusterFileError("\n".join(_problem(item) for item in error.errors())) from None
    return StaticState(_image(parsed), parsed.next_producer_id)


def encode(state: StaticState) -> bytes:
    """The file's bytes; `decode` gives back an equal state."""
    image = state.image
    parsed = _ClusterFile(
        cluster_id=uuid_from_text(image.cluster_id),
        brokers=tuple(
            _Broker(id=b.id, host=b.host, port=b.port, rack=b.rack, directory_ids=b.directory_ids, fenced=b.fenced)
            for _, b in sorted(image.brokers.items())
        ),
        topics=tuple(_topic_entry(topic) for _, topic in sorted(image.topics.items())),
        broker_configs={name: dict(configs) for name, configs in sorted(image.broker_configs.items())},
        next_producer_id=state.next_producer_id,
    )
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(parsed.model_dump(mode="json"), Dumper=dumper, sort_keys=False, width=110)
    return text.encode()


def _topic_entry(topic: TopicImage) -> _Topic:
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        configs=dict(topic.configs),
        partitions=tuple(
            _Partition(
                partition=number,
                leader=entry.leader,
                leader_epoch=entry.leader_epoch,
                partition_epoch=entry.partition_epoch,
                replicas=entry.replicas,
                isr=entry.isr,
            )
            for number, entry in sorted(topic.partitions.items())
        ),
    )


def _image(parsed: _ClusterFile) -> ClusterImage:
    return ClusterImage(
        cluster_id=uuid_to_text(parsed.cluster_id),
        brokers={
            b.id: BrokerRegistration(b.id, b.host, b.port, b.rack, b.directory_ids, b.fenced)
            for b in sorted(parsed.brokers, key=lambda entry: entry.id)
        },
        topics={
            t.name: TopicImage(t.name, t.topic_id, t.configs, {p.partition: _registration(p) for p in t.partitions})
            for t in sorted(parsed.topics, key=lambda entry: entry.name)
        },
        broker_configs=parsed.broker_configs,
    )


def _registration(entry: _Partition) -> PartitionRegistration:
    return PartitionRegistration(
        leader=entry.leader,
        leader_epoch=entry.leader_epoch,
        partition_epoch=entry.partition_epoch,
        replicas=entry.replicas,
        isr=entry.isr,
    )


def _problem(item: Mapping[str, Any]) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]).lstrip(".")
    message = str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "expected")
    return f"{place or 'file'}: {message}"
