"""The bare loops copy everything, whichever way they send."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tierfetch.bench.ceiling import BUFFER_BYTES, bare_copy
from tierfetch.bench.fetching.bare import WAYS


@pytest.mark.parametrize("way", WAYS)
def test_the_bare_loops_copy_all_files_and_leave_none(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(Path, "unlink", lambda path: sizes.append(os.stat(path).st_size))
    for name, size in (("a", BUFFER_BYTES * 3 + 1), ("b", 0), ("c", 70_000)):
        (tmp_path / name).write_bytes(os.urandom(size))
    copied = bare_copy([tmp_path / name for name in "abc"], tmp_path / "copy", way)
    assert sizes == [BUFFER_BYTES * 3 + 1 + 70_000]
    assert copied.wall_s > 0
    assert copied.cpu_s > 0
    expected = b"".join((tmp_path / name).read_bytes() for name in "abc")
    assert (tmp_path / "copy").read_bytes() == expected
