"""Where an export goes: a directory here, or whatever Arrow opens by URL (s3://, gs://, hdfs://).

| call   | promise                                                                                                   |
|--------|-----------------------------------------------------------------------------------------------------------|
| write  | a file that is whole, and on a disk durable, once the block ends well                                     |
| create | the file is there whole or not at all; False if another process made it first (exact in a directory; for |
|        | a URL as far as looking before writing shows, so let one export run at a time)                            |
| rename | of a name that is taken: replaces                                                                         |

Paths are relative to the place, with slashes, and are made by this package alone.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from ...light_dataclass import dataclass
from .export_log import ExportError


class Place(Protocol):
    """OSError where the place fails."""

    def paths(self) -> list[str]:
        """Every file of the place, hidden ones too."""

    def read(self, path: str) -> bytes: ...

    @contextmanager
    def write(self, path: str) -> Iterator[BinaryIO]: ...

    def create(self, path: str, data: bytes) -> bool: ...

    def rename(self, path: str, to: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def size(self, path: str) -> int | None:
        """None if it is not there."""


def absolute(location: str) -> str:
    """A directory's whole path: executors may run somewhere else than the driver."""
    is_directory = urlsplit(location).scheme in ("", "file")
    return str(Path(location.removeprefix("file://")).absolute()) if is_directory else location


def open_place(location: str) -> Place:
    """ExportError for what is no place. In an executor too: a place is opened where it is used."""
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        return Directory(Path(absolute(location)))
    try:
        filesystem, path = fs.FileSystem.from_uri(location.replace("s3a://", "s3://", 1))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ExportError(f"Arrow cannot open locations with {scheme}://: {_without(location, error)}") from None
    return Url(filesystem, path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Directory:
    """On a disk."""

    root: Path

    def paths(self) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    @contextmanager
    def write(self, path: str) -> Iterator[BinaryIO]:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _sync(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        target = self.root / path
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with self.write(temporary.relative_to(self.root).as_posix()) as file:
            file.write(data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync(target.parent)
        return True

    def rename(self, path: str, to: str) -> None:
        (self.root / path).replace(self.root / to)
        _sync((self.root / to).parent)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def size(self, path: str) -> int | None:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Url:
    """A place that Arrow opens by URL."""

    filesystem: Any
    root: str

    def paths(self) -> list[str]:
        selector = fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        prefix = f"{self.root}/"
        found = self.filesystem.get_file_info(selector)
        return sorted(info.path.removeprefix(prefix) for info in found if info.is_file)

    def read(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(self._at(path)) as file:
            return bytes(file.read())

    @contextmanager
    def write(self, path: str) -> Iterator[BinaryIO]:
        self.filesystem.create_dir(self._at(path).rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(self._at(path)) as file:
            yield cast(BinaryIO, file)

    def create(self, path: str, data: bytes) -> bool:
        if self.size(path) is not None:
            return False
        with self.write(path) as file:
            file.write(data)
        return True

    def rename(self, path: str, to: str) -> None:
        self.filesystem.move(self._at(path), self._at(to))

    def remove(self, path: str) -> None:
        if self.size(path) is not None:
            self.filesystem.delete_file(self._at(path))

    def size(self, path: str) -> int | None:
        (info,) = self.filesystem.get_file_info([self._at(path)])
        return int(info.size) if info.is_file else None

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _without(location: str, error: Exception) -> str:
    """What Arrow said, without the location: it may hold a password."""
    return str(error).replace(location, "the location")
