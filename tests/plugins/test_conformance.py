"""R5: the one conformance suite on every plugin we ship."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.plugins.fsspec import FsspecRemoteStorage
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.plugins.s3 import S3RemoteStorage
from tierfetch.remote import RemoteStorageManager
from tierfetch.testing.remote_storage import RemoteStorageConformance


class TestR5Local(RemoteStorageConformance):
    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[RemoteStorageManager]:
        storage = LocalTieredStorage(LocalTieredStorage.Config(dir=tmp_path / "tier"))
        yield storage
        await storage.close()


class TestR5S3(RemoteStorageConformance):
    large_bytes = 11 << 20

    @pytest.fixture
    async def storage(self, s3_options: dict[str, str]) -> AsyncIterator[RemoteStorageManager]:
        storage = S3RemoteStorage(S3RemoteStorage.Config.model_validate(s3_options))
        yield storage
        await storage.close()


class TestR5FsspecFile(RemoteStorageConformance):
    large_bytes = 9 << 20

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[RemoteStorageManager]:
        storage = FsspecRemoteStorage(FsspecRemoteStorage.Config(url=f"file://{tmp_path}/tier"))
        yield storage
        await storage.close()


class TestR5FsspecMemory(RemoteStorageConformance):
    large_bytes = 9 << 20

    @pytest.fixture
    async def storage(self) -> AsyncIterator[RemoteStorageManager]:
        storage = FsspecRemoteStorage(FsspecRemoteStorage.Config(url=f"memory://{uuid.uuid4()}/tier"))
        yield storage
        await storage.close()
