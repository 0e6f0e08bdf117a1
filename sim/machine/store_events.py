"""What happens at the simulated object store, for its subscribers."""

from __future__ import annotations

from ...light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UploadStarted:
    """A host begins to upload an object; `upload` numbers all uploads of the run."""

    upload: int
    host: str
    key: str


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An upload has read all of its source. The object appears in the store now, later, or not at all."""

    upload: int
    host: str
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """An object was deleted from the store."""

    key: str


StoreEvent = UploadStarted | Uploaded | ObjectRemoved
