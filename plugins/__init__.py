"""One storage product each, and one object layout; the only folder that imports a storage SDK.

object_storage  implements `RemoteStorageManager` over any store of named objects. Begin here.
layout          names the objects of a segment, as Kafka's `LocalTieredStorage` does.
local           stores segments in a directory.
s3              stores segments in S3 through boto3.
fsspec          stores segments at any fsspec URL.
threads         runs blocking SDK calls on a plugin's own threads.
"""

from __future__ import annotations

from .object_storage import ObjectRemoteStorage, ObjectStore, StorageConfig

__all__ = [
    "ObjectRemoteStorage",
    "ObjectStore",
    "StorageConfig",
]
