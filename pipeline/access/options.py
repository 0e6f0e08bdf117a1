"""The options of the `tierfetch` source, checked before anything is asked of the tier.

Spark folds the case of option names, so they are lower case here; `storage.*` go to the storage plugin as its
`rsm.config.*` keys, `encryption.*` are the keys of an encrypted tier. A misspelt name is refused with the nearest right
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from ...protocol import OperatorError, TopicPartition, check_topic_name
from ...remote import RemoteStorageManager, load_remote_storage

STORAGE_PREFIX: Final = "storage."
EARLIEST: Final = -2
LATEST: Final = -1
"""In place of an offset, in options and in ListOffsets alike."""
ByPartition = dict[str, dict[int, int]]
Offsets = Literal["earliest", "latest"] | ByPartition
_BY_PARTITION: Final = TypeAdapter(ByPartition)
_OFFSET_WORDS: Final = ("earliest", "latest")
Layout = Literal["kafka", "aiven", "logdir"]
CORRUPT_COLUMN: Final = "_corrupt_record"
"""As Spark's own sources name it."""
SPLIT_BYTES: Final = 32 * 1024 * 1024
SPLIT_BYTES_MAX: Final = 512 * 1024 * 1024
"""A window of twice as many bytes is still addressed by 32 bits."""
ENCRYPTION_PREFIX: Final = "encryption."
_PREFIXED: Final = (STORAGE_PREFIX, ENCRYPTION_PREFIX)
_OF_OTHER_SOURCES: Final = {
    "assign": "topics, with startingOffsets and endingOffsets of the wanted partitions",
    "kafka.bootstrap.servers": "brokers",
    "minpartitions": "splitBytes",
    "paths": "location, which takes one place",
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
}
"""What Spark's own sources call it."""
_PATH: Final = "path"
_PEM: Final = "-----BEGIN "
_LOCAL: Final = re.compile(r"(?:file:(?://)?(?=/))?(/.*|[^:]*)")
"""Spark writes file:/tmp/x."""
_S3_SCHEMES: Final = ("s3://", "s3a://")
_S3: Final = re.compile(r"s3a?://([^/]+)/?(.*)")
_KAFKA_DIRECTORY: Final = "kafka-tiered-storage"


class OptionError(OperatorError, ValueError):
    """An option is wrong. The message is for the author of the query and holds no secrets."""


class TierOptions(BaseModel):
    """What `.option(...)` takes. Offsets and timestamps (ms) by topic and partition, as in Spark's Kafka source:
    `{"topic": {"0": 23, "1": -2}}`, -2 for the earliest and -1 for the end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    location: str = Field(min_length=1, description="A directory, s3://BUCKET/PREFIX or any fsspec URL.")
    plugin: str | None = Field(None, description="Storage plugin, where the location does not name it.")
    storage: dict[str, SecretStr] = Field(default_factory=dict, description="storage.KEY: the plugin's options.")
    layout: Literal[Layout, "auto"] = Field("auto", description="How segments are laid out there.")
    log_dirs: tuple[str, ...] = Field(
        (), description="Log directories of brokers: read what is not in the tier from them."
    )
    encryption: dict[str, SecretStr] = Field(
        default_factory=dict, description="encryption.KEY_ID: private RSA key, PEM or a file with it (layout aiven)."
    )
    topics: tuple[str, ...] = Field((), description="Names, separated by commas.")
    topics_pattern: re.Pattern[str] | None = Field(None, description="Or a regular expression for the whole name.")
    starting_offsets: Offsets = "earliest"
    ending_offsets: Offsets = "latest"
    starting_timestamp: int | None = Field(
        None, ge=0, description="ms, of all partitions; before startingOffsetsByTimestamp and startingOffsets."
    )
    starting_offsets_by_timestamp: ByPartition = Field(
        default_factory=dict, description="ms of some partitions; before startingOffsets."
    )
    starting_offsets_by_timestamp_strategy: Literal["latest", "error"] = Field(
        "latest", description="Of a partition that has nothing as late as its starting time: begin at its end, or fail."
    )
    ending_timestamp: int | None = Field(
        None, ge=0, description="ms, exclusive, of all partitions; before endingOffsetsByTimestamp and endingOffsets."
    )
    ending_offsets_by_timestamp: ByPartition = Field(
        default_factory=dict, description="ms of some partitions, exclusive; before endingOffsets."
    )
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    mode: Literal["failfast", "permissive"] = "failfast"
    fail_on_data_loss: bool = Field(True, description="Whether a gap between remote segments is an error.")
    column_name_of_corrupt_record: str | None = Field(
        None, min_length=1, description="With permissive: a column, and a row for each batch that is passed over."
    )
    brokers: str | None = Field(None, description="HOST:PORT,...: read what is not in the tier yet from them.")
    command_config: str | None = Field(
        None,
        min_length=1,
        description="Client properties file for the brokers, on every host; as Java's tools take it.",
    )
    metadata: bool = Field(False, description="Also leader_epoch producer_id producer_epoch sequence segment_id.")
    split_bytes: int = Field(
        SPLIT_BYTES,
        ge=1024,
        le=SPLIT_BYTES_MAX,
        description="Bytes of a segment that are read at once, and that one task reads.",
    )
    max_offsets_per_trigger: int | None = Field(
        None, ge=1, description="Offsets of one micro-batch, in all partitions."
    )

    @field_validator("location")
    @classmethod
    def _whole_path(cls, value: str) -> str:
        return _whole(value)

    @field_validator("topics", mode="before")
    @classmethod
    def _split_topics(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            check_topic_name(name)
        return names

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _split_directories(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.split(",")]
        if not all(names):
            raise ValueError(f"{value!r} names a directory with an empty name")
        return tuple(_whole(name) for name in names)

    @field_validator("encryption")
    @classmethod
    def _read_keys(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Here, in the driver: executors need not see the files."""
        return {key_id: _pem(key_id, pem) for key_id, pem in value.items()}

    @field_validator("layout", "isolation", "mode", "starting_offsets_by_timestamp_strategy", mode="before")
    @classmethod
    def _fold_case(cls, value: object) -> object:
        """Fold the case of words, because Spark's own sources take PERMISSIVE and Latest."""
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("starting_offsets", "ending_offsets", mode="before")
    @classmethod
    def _parse_offsets(cls, value: object) -> object:
        if not isinstance(value, str) or (word := value.strip().lower()) not in _OFFSET_WORDS:
            return _by_partition(value, "neither earliest nor latest nor")
        return word

    @field_validator("starting_offsets_by_timestamp", "ending_offsets_by_timestamp", mode="before")
    @classmethod
    def _parse_times(cls, value: object) -> object:
        return _by_partition(value, "no")

    @field_validator("brokers")
    @classmethod
    def _check_brokers(cls, value: str | None) -> str | None:
        from ...protocol.net import Address  # brings sockets and TLS, which take longer to import than a plan to make

        for text in (value or "").split(",") if value is not None else ():
            Address.parse(text)
        return value

    def starting_time(self, partition: TopicPartition) -> int | None:
        """ms; None where an offset says where to begin."""
        return _time_of(partition, self.starting_timestamp, self.starting_offsets_by_timestamp)

    def ending_time(self, partition: TopicPartition) -> int | None:
        """ms, exclusive; None where an offset says where to end."""
        return _time_of(partition, self.ending_timestamp, self.ending_offsets_by_timestamp)

    @property
    def access(self) -> tuple[object, ...]:
        """What decides which stores are opened, and with which rights; it holds secrets."""
        secrets = [
            tuple((key, value.get_secret_value()) for key, value in given.items())
            for given in (self.storage, self.encryption)
        ]
        return self.location, self.plugin, *secrets

    @property
    def has_end(self) -> bool:
        """Whether anything but the end of what is there ends the table."""
        by_time = self.ending_timestamp is not None or bool(self.ending_offsets_by_timestamp)
        return by_time or self.ending_offsets != "latest"

    @property
    def corrupt_column(self) -> str:
        """The column in which a query gets what was skipped."""
        return self.column_name_of_corrupt_record or CORRUPT_COLUMN

    @model_validator(mode="after")
    def _some_topics(self) -> TierOptions:
        if bool(self.topics) == (self.topics_pattern is not None):
            raise ValueError("set exactly one of topics and topicsPattern")
        return self

    def open_storage(self, location: str | None = None, layout: Layout = "kafka") -> RemoteStorageManager:
        """The plugin of the tier, or of another place: log directories are found by their names alone. PluginError in
        words for the author of the query.
        """
        name, config = _plugin_of(location or self.location, layout)
        if location not in (None, self.location):
            return load_remote_storage(name, config, key_prefix=STORAGE_PREFIX)
        if self.plugin not in (None, name):
            name, config = str(self.plugin), {}
        given = {key: value.get_secret_value() for key, value in self.storage.items()}
        return load_remote_storage(name, config | given, key_prefix=STORAGE_PREFIX)

    def wants(self, topic: str) -> bool:
        if self.topics_pattern is not None:
            return self.topics_pattern.fullmatch(topic) is not None
        return topic in self.topics


_FIELDS: Final = {field.replace("_", ""): field for field in TierOptions.model_fields}
"""The fields by their names in lower case, without underscores."""


def parse(options: Mapping[str, str]) -> TierOptions:
    """OptionError names what is wrong, and the right name of a misspelt option."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.lower()
        prefix = next((prefix for prefix in _PREFIXED if key.startswith(prefix)), None)
        if prefix is not None:
            values.setdefault(prefix.rstrip("."), {})[key.removeprefix(prefix)] = value
        elif key == _PATH:
            values.setdefault("location", value)
        else:
            values[_field(name)] = value
    try:
        return TierOptions.model_validate(values)
    except ValidationError as error:
        raise OptionError("; ".join(_sentence(detail) for detail in error.errors())) from None


def of_all_topics(options: Mapping[str, str]) -> dict[str, str]:
    """Parse options as `parse` does; without named topics, choose all."""
    named = {name.lower().replace("_", "") for name in options}
    return {**options} if named & {"topics", "topicspattern"} else {**options, "topicsPattern": ".*"}


def _field(name: str) -> str:
    """Return the field of `TierOptions` with this name. OptionError if there is none."""
    key = name.lower().replace("_", "")
    if key in _FIELDS:
        return _FIELDS[key]
    shown = {key: to_camel(field) for key, field in _FIELDS.items()}
    nearest = [shown[near] for near in get_close_matches(key, shown, 1)]
    right = [_OF_OTHER_SOURCES[key]] if key in _OF_OTHER_SOURCES else nearest
    hint = f"; did you mean {right[0]}?" if right else "."
    raise OptionError(f"unknown option {name}{hint} Options: {', '.join(sorted(shown.values()))}")


def _by_partition(value: object, what: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        return _BY_PARTITION.validate_json(value)
    except ValidationError:
        raise ValueError(f'{value!r} is {what} JSON such as {{"topic": {{"0": 23, "1": 42}}}}') from None


def _time_of(partition: TopicPartition, of_all: int | None, of_some: ByPartition) -> int | None:
    return of_some.get(partition.topic, {}).get(partition.partition) if of_all is None else of_all


def _whole(place: str) -> str:
    """Return a directory as an absolute path: executors may not share the driver's working directory. ValueError."""
    if place.startswith(_S3_SCHEMES) and not _S3.fullmatch(place):
        raise ValueError(f"{place}: expected s3://BUCKET/PREFIX")
    match = _LOCAL.fullmatch(place)
    return place if match is None else str(Path(match[1]).absolute())


def _plugin_of(location: str, layout: Layout) -> tuple[str, dict[str, str]]:
    """Kafka's layout has a directory of its own there; any other layout is the place itself."""
    if match := _S3.fullmatch(location):
        return "s3", {"bucket": match[1], "prefix": match[2]}
    if match := _LOCAL.fullmatch(location):
        path = match[1].rstrip("/") or "/"
        if layout == "kafka":
            return "local", {"dir": path.removesuffix(f"/{_KAFKA_DIRECTORY}")}
        return "local", {"dir": path, "subdirectory": ""}
    return "fsspec", {"url": location}


def _pem(key_id: str, given: SecretStr) -> SecretStr:
    text = given.get_secret_value()
    if text.lstrip().startswith(_PEM):
        return given
    try:
        return SecretStr(Path(text).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ValueError(f"{key_id}: neither a key in PEM nor a file with one: {reason}") from None


def _sentence(detail: Any) -> str:
    said = str(detail["msg"]).removeprefix("Value error, ")
    return f"option {to_camel(str(detail['loc'][0]))}: {said}" if detail["loc"] else said
