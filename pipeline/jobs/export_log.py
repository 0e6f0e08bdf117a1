"""What has been exported, as a log of commits beside the files: what makes an export idempotent and resumable. Pure.

    OUT/topic=orders/date=2026-11-21/part-….parquet      whole files, once their commit is there
    OUT/topic=orders/date=2026-11-21/.part-….parquet     on their way: readers pass over names that begin with a dot
    OUT/_tierfetch/commit-00000003.json                  what the third wave added: offsets and files

A wave writes its files under hidden names, then its commit, then gives the files their names:

| a crash                          | leaves                    | the next run                               |
|----------------------------------|---------------------------|--------------------------------------------|
| while files are written          | hidden files of no commit | removes them, reads the same offsets again |
| between commit and the last name | hidden files of a commit  | names them; their offsets are done         |
| after that                       | nothing to do             | continues after them                       |

So a reader never sees an offset twice, whenever it looks, and one who looks after a run that ended well misses none.

A partition's offsets are exported up to its position, the end of the last committed range. The topic id belongs to it:
a topic that was deleted and created again begins at offset 0 with other records, and is refused. Isolation and columns
are those of the first commit; another choice is another directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...light_dataclass import dataclass
from ...protocol import OperatorError, TopicPartition

LOG_DIRECTORY: Final = "_tierfetch"
_COMMIT: Final = re.compile(rf"{LOG_DIRECTORY}/commit-(\d{{8}})\.json")
_HALF_COMMIT: Final = re.compile(rf"{LOG_DIRECTORY}/\.commit-\d{{8}}\.json\.[0-9a-f]+")
_PART: Final = re.compile(r"topic=[A-Za-z0-9._-]+/date=[0-9-]+/\.?part-[0-9a-z-]+\.parquet")


class ExportError(OperatorError):
    """The export cannot continue from what is there; the message says what to do."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExportSettings(_Value):
    """What all files of a directory have in common."""

    isolation: Literal["read_committed", "read_uncommitted"]
    metadata: bool = Field(description="Whether the columns leader_epoch to segment_id are there.")


class ExportedRange(_Value):
    """Offsets [first_offset, end_offset) of one partition."""

    topic: str
    topic_id: str
    partition: int = Field(ge=0)
    first_offset: int = Field(ge=0)
    end_offset: int = Field(ge=0)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ExportedFile(_Value):
    """`path` is the name below the directory that readers see."""

    path: str
    rows: int = Field(ge=1)
    size_bytes: int = Field(ge=1)

    @property
    def hidden_path(self) -> str:
        directory, _, name = self.path.rpartition("/")
        return f"{directory}/.{name}"


class Commit(_Value):
    """One wave: the document of one file of the log."""

    version: Literal[1] = 1
    settings: ExportSettings
    ranges: tuple[ExportedRange, ...]
    files: tuple[ExportedFile, ...]
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The offset at which a partition's export continues."""

    topic_id: str
    end_offset: int


@dataclass(frozen=True, slots=True)
class ExportLog:
    """All commits, in their order."""

    commits: tuple[Commit, ...] = ()

    @property
    def next_path(self) -> str:
        return f"{LOG_DIRECTORY}/commit-{len(self.commits) + 1:08d}.json"

    def positions(self) -> dict[TopicPartition, Position]:
        return {
            done.name: Position(done.topic_id, done.end_offset) for commit in self.commits for done in commit.ranges
        }

    def files(self) -> list[ExportedFile]:
        return [file for commit in self.commits for file in commit.files]

    def check(self, settings: ExportSettings) -> None:
        """ExportError if the directory holds an export of another kind."""
        if self.commits and self.commits[0].settings != settings:
            raise ExportError(
                f"this directory was exported with {_said(self.commits[0].settings)}, and now {_said(settings)} is "
                "asked for: export that into another one"
            )

    def with_commit(self, commit: Commit) -> ExportLog:
        return ExportLog((*self.commits, commit))


def read_log(documents: Mapping[str, bytes]) -> ExportLog:
    """From the files of the log, by path. ExportError for one that is missing or is none."""
    by_number: dict[int, Commit] = {}
    for path, document in documents.items():
        match = _COMMIT.fullmatch(path)
        assert match is not None, f"{path} is no commit"
        try:
            by_number[int(match[1])] = Commit.model_validate_json(document)
        except ValidationError as error:
            raise ExportError(f"{path} is not a commit of an export: {error.errors()[0]['msg']}") from None
    missing = sorted(set(range(1, len(by_number) + 1)) - set(by_number))
    if missing:
        raise ExportError(f"commit {missing[0]} of the export is missing, and later ones exist: restore it")
    return ExportLog(tuple(by_number[number] for number in sorted(by_number)))


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a crashed run left to do: give names to `publish`, remove `discard`."""

    publish: tuple[ExportedFile, ...]
    discard: tuple[str, ...]


def recover(log: ExportLog, paths: Iterable[str]) -> Recovery:
    """Return what to publish and what to delete, given the directory's files. Files with foreign names are ignored."""
    hidden = {path for path in paths if (_PART.fullmatch(path) or _HALF_COMMIT.fullmatch(path)) and is_hidden(path)}
    publish = [file for file in log.files() if file.hidden_path in hidden]
    return Recovery(tuple(publish), tuple(sorted(hidden - {file.hidden_path for file in publish})))


def foreign(paths: Iterable[str]) -> list[str]:
    """Files that readers of an export would take for a part of it, and that no export has written."""
    return [
        path for path in paths if not _PART.fullmatch(path) and not any(part[0] in "._" for part in path.split("/"))
    ]


def is_commit(path: str) -> bool:
    return _COMMIT.fullmatch(path) is not None


def is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def ranges_of(done: Sequence[ExportedRange]) -> tuple[ExportedRange, ...]:
    """Return one range for each partition, from the first to the last of `done`, which are adjacent."""
    joined: dict[TopicPartition, ExportedRange] = {}
    for part in done:
        before = joined.get(part.name)
        joined[part.name] = part if before is None else before.model_copy(update={"end_offset": part.end_offset})
    return tuple(joined[name] for name in sorted(joined))


def _said(settings: ExportSettings) -> str:
    return f"{settings.isolation}{' and metadata columns' if settings.metadata else ''}"
