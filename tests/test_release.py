"""What `make release` builds: from the commit alone, the same bytes each time; its version comes from one place."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import tierfetch
from tierfetch.tests import release

ROOT = Path(__file__).resolve().parent.parent
EPOCH_S = 1_700_000_000
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""The subheadings of Keep a Changelog."""


def archive(members: list[tuple[str, int, str]], mtime_s: int) -> bytes:
    """Return a packed sdist of files with this (name, mode, owner)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as target:
        for name, mode, owner in members:
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uname, member.mtime = 3, mode, owner, mtime_s
            target.addfile(member, io.BytesIO(b"abc"))
    return gzip.compress(packed.getvalue(), mtime=mtime_s)


def test_the_version_is_written_once() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tierfetch.__version__"}
    assert metadata.version("tierfetch") == tierfetch.__version__, "installed from another version: make install"


@pytest.mark.parametrize(
    ("version", "changelog", "error"),
    [
        ("0.2.0.dev0", "## [Unreleased]\n", None),
        ("0.2.0", "## [Unreleased]\n\n## [0.2.0] - 2026-01-31\n", None),
        ("0.2.0.dev0", "## [0.1.0] - 2026-01-31\n", "'## [Unreleased]'"),
        ("0.2.0", "## [Unreleased]\n", "'## [0.2.0] - YYYY-MM-DD'"),
        ("0.2.0", "## [0.2.0]\n", "'## [0.2.0] - YYYY-MM-DD'"),
        ("0.2.0", "## [0-2-0] - 2026-01-31\n", "'## [0.2.0] - YYYY-MM-DD'"),
    ],
)
def test_a_version_needs_its_section_in_the_changelog(version: str, changelog: str, error: str | None) -> None:
    found = release.changelog_error(version, changelog)
    assert (found is None) if error is None else (found is not None and error in found)


def test_the_changelog_keeps_its_form() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert release.changelog_error(tierfetch.__version__, changelog) is None
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert [each for each in headings if not re.fullmatch(r"\[Unreleased\]|\[[\d.]+\] - \d{4}-\d\d-\d\d", each)] == []
    assert set(re.findall(r"^### (.*)$", changelog, re.MULTILINE)) <= set(KINDS)


def test_who_packs_an_sdist_and_when_does_not_show() -> None:
    first = archive([("t/b", 0o644, "ann"), ("t/a", 0o755, "ann")], 1_111)
    second = archive([("t/a", 0o700, "bob"), ("t/b", 0o600, "bob")], 2_222)
    assert first != second
    assert release.normalized(first, EPOCH_S) == release.normalized(second, EPOCH_S)
    with tarfile.open(fileobj=io.BytesIO(release.normalized(first, EPOCH_S))) as packed:
        found = [(each.name, oct(each.mode), each.uname, each.mtime) for each in packed.getmembers()]
        assert found == [("t/a", "0o755", "", EPOCH_S), ("t/b", "0o644", "", EPOCH_S)]
        assert packed.extractfile("t/a").read() == b"abc"


def test_a_difference_is_named() -> None:
    assert release.differences({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}) == []
    assert release.differences({"a": b"1", "b": b"2"}, {"a": b"0", "c": b"2"}) == ["a", "b", "c"]


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "SUMS").write_text(release.sums({"a": b"1"}))
    subprocess.run(["sha256sum", "--check", "--strict", "SUMS"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.packaging
def test_two_builds_of_a_commit_are_the_same_and_whole(tmp_path: Path) -> None:
    builds = []
    for number, surroundings in enumerate(release.SURROUNDINGS):
        (tmp_path / str(number)).mkdir()
        environment = {**surroundings, "SOURCE_DATE_EPOCH": str(EPOCH_S)}
        builds.append(release.build(tmp_path / str(number), environment))
    assert release.differences(*builds) == []
    wheel_name, sdist_name = sorted(builds[0], key=lambda name: name.endswith(".tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(builds[0][sdist_name])) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
        assert {each.mtime for each in sdist.getmembers()} == {EPOCH_S}
    committed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    assert set(committed.stdout.splitlines()) - packed == set(), "MANIFEST.in leaves these out of the sdist"
    with zipfile.ZipFile(io.BytesIO(builds[0][wheel_name])) as wheel:
        folders = {name.split("/")[1] for name in wheel.namelist() if name.count("/") > 1}
    assert not folders & {"docs", "bench", "deploy"}
    assert {"broker", "cli", "tests"} <= folders
