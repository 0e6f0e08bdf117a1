"""What the wheel holds: every folder of the checkout that is shipped, and each says what it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_SHIPPED = {"deploy", "tests", "bench", "build", "dist", "docs"}


def shipped_folders() -> list[Path]:
    """Return the folders of the product that hold modules."""
    folders = {path.parent for path in ROOT.glob("*/**/*.py")}
    return sorted(
        folder
        for folder in folders
        if folder.relative_to(ROOT).parts[0] not in NOT_SHIPPED
        and not any(part.startswith((".", "__")) for part in folder.relative_to(ROOT).parts)
    )


def test_every_folder_is_a_package_that_says_what_it_is() -> None:
    for folder in shipped_folders():
        init = folder / "__init__.py"
        assert init.exists(), f"{folder} would not be in the wheel: it has no __init__.py"
        assert init.read_text().startswith('"""'), f"{init} has no docstring"


def built_modules(package: str, tmp_path: Path) -> set[str]:
    """Return the files of a package that a build of the wheel copies; as there, another script runs `setup.py`."""
    script = "exec(open('setup.py').read())"
    command = [sys.executable, "-c", script, "-q", "egg_info", "-e", str(tmp_path)]
    subprocess.run([*command, "build_py", "-d", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    return {path.name for path in (tmp_path / package).glob("*.py")}


def test_the_script_that_builds_the_wheel_is_not_in_it(tmp_path: Path) -> None:
    shipped = {path.name for path in ROOT.glob("*.py")} - {"setup.py"}
    assert built_modules("tierfetch", tmp_path) == shipped
