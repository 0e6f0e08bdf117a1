"""What the wheel holds: every folder of the checkout that is shipped, and each says what it is."""

from __future__ import annotations

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
