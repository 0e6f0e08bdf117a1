"""Build what a release consists of, twice, and keep it only if both times gave the same bytes (`make release`).

    python -m tierfetch.tests.release [DIRECTORY]    into dist/ if none is given

    tierfetch-<version>.tar.gz                 the files of the commit HEAD, tests and docs included
    tierfetch-<version>-py3-none-any.whl       built from that
    tierfetch-<version>.cdx.json               CycloneDX: the wheel's dependencies, as constraints.txt pins them
    SHA256SUMS

Only HEAD decides what is in them: a change that is not committed is not built. Every time in them is that of the commit
(SOURCE_DATE_EPOCH); setuptools honours it in wheels, and `normalized` brings it into the sdist. The umask is fixed. The
second build has another directory, hash seed and time zone, so that none of them can show.

Failure points: a version without its section in CHANGELOG.md ends it before anything is built; builds that differ, and
what `twine check --strict` finds, before anything is in DIRECTORY.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
UMASK: Final = 0o022
"""A wheel records the modes of the files that are generated for it."""
SURROUNDINGS: Final = ({"PYTHONHASHSEED": "1", "TZ": "UTC"}, {"PYTHONHASHSEED": "2", "TZ": "Pacific/Kiritimati"})
"""The environments of the first and of the second build."""
DYNAMIC: Final = 'dynamic = ["version"]'


class ReleaseError(Exception):
    """The release is refused; the message says why."""


def changelog_error(version: str, changelog: str) -> str | None:
    """Return why CHANGELOG.md does not fit the version, or None; a development version needs a section Unreleased."""
    if ".dev" in version:
        heading = r"^## \[Unreleased\]$"
        wanted = "## [Unreleased]"
    else:
        heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
        wanted = f"## [{version}] - YYYY-MM-DD"
    found = re.search(heading, changelog, re.MULTILINE)
    return None if found else f"CHANGELOG.md has no section {wanted!r}, which version {version} needs"


def normalized(sdist: bytes, epoch_s: int) -> bytes:
    """Return the archive with its files in order, of one time, one owner and two modes: nothing shows who packed it."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            target.addfile(_plain(member, epoch_s), source.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch_s)


def _plain(member: tarfile.TarInfo, epoch_s: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(member.name)
    plain.type, plain.linkname, plain.size, plain.mtime = member.type, member.linkname, member.size, epoch_s
    plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return plain


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """Return the names of the files that are not the same in both builds."""
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def sums(files: Mapping[str, bytes]) -> str:
    """Return what `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> bytes:
    """Run a command and return its output; ReleaseError with what it said if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        umask=UMASK,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise ReleaseError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout


def build(scratch: Path, environment: Mapping[str, str]) -> dict[str, bytes]:
    """Build sdist and wheel of HEAD in an empty directory, and return them by name."""
    source, unpacked, built = (scratch / name for name in ("source", "unpacked", "built"))
    with tarfile.open(fileobj=io.BytesIO(run("git", "archive", "HEAD", cwd=ROOT))) as archive:
        archive.extractall(source, filter="data")
    python_build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", built)
    run(*python_build, "--sdist", source, cwd=scratch, environment=environment)
    (sdist,) = built.glob("*.tar.gz")
    sdist.write_bytes(normalized(sdist.read_bytes(), int(environment["SOURCE_DATE_EPOCH"])))
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    run(*python_build, "--wheel", folder, cwd=scratch, environment=environment)
    return {path.name: path.read_bytes() for path in built.iterdir()}


def bill_of_materials(wheel: Path, version: str, epoch_s: int, scratch: Path) -> bytes:
    """Return the SBOM of an environment that has the wheel and what it needs, and nothing else."""
    directory = scratch / "environment"
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=scratch)
    run(python, "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools", cwd=scratch)
    pyproject = scratch / "pyproject.toml"
    text = (ROOT / "pyproject.toml").read_text()
    assert DYNAMIC in text, "cyclonedx-py takes the version of the root component from pyproject.toml alone"
    pyproject.write_text(text.replace(DYNAMIC, f'version = "{version}"'))
    options = ("--output-reproducible", "--mc-type", "application", "--pyproject", pyproject)
    cyclonedx = (Path(sys.executable).with_name("cyclonedx-py"), "environment", *options, python)
    return run(*cyclonedx, cwd=scratch, environment={"SOURCE_DATE_EPOCH": str(epoch_s)})


def release(directory: Path, version: str) -> dict[str, bytes]:
    """Build, compare, check and write the files of a release of HEAD, and return them by name."""
    if error := changelog_error(version, run("git", "show", "HEAD:CHANGELOG.md", cwd=ROOT).decode()):
        raise ReleaseError(error)
    epoch_s = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        builds = []
        for number, surroundings in enumerate(SURROUNDINGS):
            (scratch / f"build{number}").mkdir()
            environment = {**surroundings, "SOURCE_DATE_EPOCH": str(epoch_s)}
            builds.append(build(scratch / f"build{number}", environment))
        if differing := differences(*builds):
            raise ReleaseError(f"two builds of one commit differ in {', '.join(differing)}")
        built = scratch / "build0" / "built"
        run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), cwd=scratch)
        (wheel,) = built.glob("*.whl")
        if not wheel.name.startswith(f"tierfetch-{version}-"):
            raise ReleaseError(f"HEAD builds {wheel.name}, and the checkout has version {version}: commit it first")
        sbom = bill_of_materials(wheel, version, epoch_s, scratch)
    files = {**builds[0], f"tierfetch-{version}.cdx.json": sbom}
    files["SHA256SUMS"] = sums(files).encode()
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (directory / file).write_bytes(content)
    return files


def main(arguments: Sequence[str]) -> int:
    import tierfetch

    directory = Path(arguments[0]) if arguments else ROOT / "dist"
    try:
        files = release(directory, tierfetch.__version__)
    except ReleaseError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    components = len(json.loads(files[f"tierfetch-{tierfetch.__version__}.cdx.json"])["components"])
    print(f"two builds of HEAD gave the same bytes; {components} components in the SBOM; in {directory}:")  # noqa: T201
    print(files["SHA256SUMS"].decode(), end="")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
