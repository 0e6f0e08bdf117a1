"""One storage product each, and one object layout; the only folder that imports a storage SDK.

object_storage  implements `RemoteStorageManager` over any store of named objects. Begin here.
layout          names the objects of a segment, as Kafka's `LocalTieredStorage` does.
local           stores segments in a directory.
s3              stores segments in S3 through boto3.
fsspec          stores segments at any fsspec URL.
threads         runs blocking SDK calls on a plugin's own threads.

What is exported here is imported when it is asked for: the names of objects need no SDK and no thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door

if TYPE_CHECKING:
    from .layout import LOG_SUFFIX, partition_directory, partition_of, segment_key, segment_keys
    from .object_storage import (
        ObjectRemoteStorage,
        ObjectStore,
        ObjectTooLargeError,
        StorageConfig,
        StreamingObjectStorage,
    )

__all__ = [
    "LOG_SUFFIX",
    "ObjectRemoteStorage",
    "ObjectStore",
    "ObjectTooLargeError",
    "StorageConfig",
    "StreamingObjectStorage",
    "partition_directory",
    "partition_of",
    "segment_key",
    "segment_keys",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "LOG_SUFFIX": "layout",
            "ObjectRemoteStorage": "object_storage",
            "ObjectStore": "object_storage",
            "ObjectTooLargeError": "object_storage",
            "StorageConfig": "object_storage",
            "StreamingObjectStorage": "object_storage",
            "partition_directory": "layout",
            "partition_of": "layout",
            "segment_key": "layout",
            "segment_keys": "layout",
        },
    )
