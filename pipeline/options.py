"""The options of the `tierfetch` source, checked before anything is asked of the tier.

Spark folds the case of option names, so they are lower case here; `storage.*` go to the storage plugin as its
`rsm.config.*` keys, `encryption.*` are the keys of an encrypted tier. A misspelt name is refused with the nearest right
one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from ..protocol.topics import check_topic_name
from ..remote.registry import load_remote_storage
from ..remote.storage import RemoteStorageManager

STORAGE_PREFIX: Final = "storage."
EARLIEST: Final = -2
LATEST: Final = -1
"""In place of an offset, in options and in ListOffsets alike."""
Offsets = Literal["earliest", "latest"] | dict[str, dict[int, int]]
Layout = Literal["kafka", "aiven", "logdir"]
CORRUPT_COLUMN: Final = "_corrupt_record"
"""As Spark's own sources name it."""
SPLIT_BYTES: Final = 32 * 1024 * 1024
SPLIT_BYTES_MAX: Final = 512 * 1024 * 1024
"""A window of twice as many bytes is still addressed by 32 bits."""
ENCRYPTION_PREFIX: Final = "encryption."
_PREFIXED: Final = (STORAGE_PREFIX, ENCRYPTION_PREFIX)
_PEM: Final = "-----BEGIN "
_LOCAL: Final = re.compile(r"(?:file:(?://)?(?=/))?(/.*|[^:]*)")
"""Spark writes file:/tmp/x."""
_S3: Final = re.compile(r"s3a?://([^/]+)/?(.*)")
_KAFKA_DIRECTORY: Final = "kafka-tiered-storage"


class OptionError(ValueError):
    """For the person who wrote the query; holds no secrets."""


class TierOptions(BaseModel):
    """What `.option(...)` takes. Offsets and timestamps (ms) by topic and partition, as in Spark's Kafka source:
    `{"topic": {"0": 23, "1": -2}}`, -2 for the earliest and -1 for the end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    location: str = Field(min_length=1, description="A directory, s3://BUCKET/PREFIX or any fsspec URL.")
    plugin: str | None = Field(None, description="Storage plugin, where the location does not tell it.")
    storage: dict[str, SecretStr] = Field(default_factory=dict, description="storage.KEY: the plugin's options.")
    layout: Layout | Literal["auto"] = Field("auto", description="How segments lie there.")
    logdirs: tuple[str, ...] = Field((), description="Log directories of brokers: go on with what is not in the tier.")
    encryption: dict[str, SecretStr] = Field(
        default_factory=dict, description="encryption.KEY_ID: private RSA key, PEM or a file with it (layout aiven)."
    )
    topics: tuple[str, ...] = Field((), description="Names, separated by commas.")
    topicspattern: re.Pattern[str] | None = Field(None, description="Or a regular expression for the whole name.")
    startingoffsets: Offsets = "earliest"
    endingoffsets: Offsets = "latest"
    startingtimestamp: int | None = Field(None, ge=0, description="ms; before startingOffsets.")
    endingtimestamp: int | None = Field(None, ge=0, description="ms, exclusive; before endingOffsets.")
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    mode: Literal["failfast", "permissive"] = "failfast"
    failondataloss: bool = Field(True, description="Whether a gap between remote segments is an error.")
    columnnameofcorruptrecord: str | None = Field(
        None, min_length=1, description="With permissive: a column, and a row for each batch that is passed over."
    )
    brokers: str | None = Field(None, description="HOST:PORT,...: go on with what is not in the tier yet.")
    metadata: bool = Field(False, description="Also leader_epoch producer_id producer_epoch sequence segment_id.")
    splitbytes: int = Field(
        SPLIT_BYTES,
        ge=1024,
        le=SPLIT_BYTES_MAX,
        description="Bytes of a segment that are read at once, and that one task reads.",
    )
    maxoffsetspertrigger: int | None = Field(None, ge=1, description="Offsets of one micro-batch, in all partitions.")

    @field_validator("location")
    @classmethod
    def _whole_path(cls, value: str) -> str:
        """Executors may run in another directory than the driver."""
        match = _LOCAL.fullmatch(value)
        return value if match is None else str(Path(match[1]).absolute())

    @field_validator("topics", mode="before")
    @classmethod
    def _split_topics(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            check_topic_name(name)
        return names

    @field_validator("logdirs", mode="before")
    @classmethod
    def _split_directories(cls, value: object) -> object:
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value

    @field_validator("encryption")
    @classmethod
    def _read_keys(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Here, in the driver: executors need not see the files."""
        return {key_id: _pem(key_id, pem) for key_id, pem in value.items()}

    @field_validator("layout", "isolation", "mode", "startingoffsets", "endingoffsets", mode="before")
    @classmethod
    def _fold_case(cls, value: object) -> object:
        """Of words: Spark's own sources take PERMISSIVE and Latest. JSON stays as it is."""
        return value.strip().lower() if isinstance(value, str) and "{" not in value else value

    @field_validator("startingoffsets", "endingoffsets", mode="before")
    @classmethod
    def _parse_offsets(cls, value: object) -> object:
        return json.loads(value) if isinstance(value, str) and value.lstrip().startswith("{") else value

    @field_validator("brokers")
    @classmethod
    def _check_brokers(cls, value: str | None) -> str | None:
        from ..protocol.client import Address  # the whole protocol, which takes longer to import than a plan to make

        for text in (value or "").split(",") if value is not None else ():
            Address.parse(text)
        return value

    @property
    def corrupt_column(self) -> str:
        """Where a query that has this column is told what was passed over."""
        return self.columnnameofcorruptrecord or CORRUPT_COLUMN

    @model_validator(mode="after")
    def _some_topics(self) -> TierOptions:
        if bool(self.topics) == (self.topicspattern is not None):
            raise ValueError("give either topics or topics_pattern")
        return self

    def open_storage(self, location: str | None = None, layout: Layout = "kafka") -> RemoteStorageManager:
        """The plugin of the tier, or of another place: log directories are found by their names alone. PluginError in
        words for whoever wrote the query.
        """
        name, config = _plugin_of(location or self.location, layout)
        if location not in (None, self.location):
            return load_remote_storage(name, config, key_prefix=STORAGE_PREFIX)
        if self.plugin not in (None, name):
            name, config = str(self.plugin), {}
        given = {key: value.get_secret_value() for key, value in self.storage.items()}
        return load_remote_storage(name, config | given, key_prefix=STORAGE_PREFIX)

    def wants(self, topic: str) -> bool:
        if self.topicspattern is not None:
            return self.topicspattern.fullmatch(topic) is not None
        return topic in self.topics


def parse(options: Mapping[str, str]) -> TierOptions:
    """OptionError names what is wrong, and the right name of a misspelt option."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.lower()
        prefix = next((prefix for prefix in _PREFIXED if key.startswith(prefix)), None)
        if prefix is not None:
            values.setdefault(prefix.rstrip("."), {})[key.removeprefix(prefix)] = value
        else:
            values[key.replace("_", "")] = value
    if "path" in values:
        values.setdefault("location", values.pop("path"))
    unknown = sorted(set(values) - set(TierOptions.model_fields))
    if unknown:
        nearest = get_close_matches(unknown[0], TierOptions.model_fields, 1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        known = ", ".join(sorted(TierOptions.model_fields))
        raise OptionError(f"unknown option {unknown[0]}{hint} Options: {known}")
    try:
        return TierOptions.model_validate(values)
    except ValidationError as error:
        raise OptionError("; ".join(_sentence(detail) for detail in error.errors())) from None


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
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise ValueError(f"{key_id}: neither a key in PEM nor a file with one: {reason}") from None


def _sentence(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"][:1])
    return f"option {where}: {detail['msg']}" if where else str(detail["msg"]).removeprefix("Value error, ")
