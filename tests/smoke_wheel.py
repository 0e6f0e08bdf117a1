"""Build the wheel, install it into a fresh environment outside the checkout, and use it there.

Proves that the package list is whole, that entry points resolve, and that nothing is imported from the source tree.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = """
import importlib.metadata as metadata, sys
from pathlib import Path
import tierfetch
assert Path(sys.argv[1]) not in Path(tierfetch.__file__).parents, tierfetch.__file__
for group in ("tierfetch.remote_storage", "tierfetch.remote_log_metadata"):
    for entry in metadata.entry_points(group=group):
        entry.load()
from tierfetch.remote.storage import RemoteStorageManager
import tierfetch.testing
print("wheel", tierfetch.__version__, "works from", Path(tierfetch.__file__).parent)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(ROOT)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (wheel,) = directory.glob("*.whl")
        environment = directory / "env"
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True, cwd=directory)
        subprocess.run([python, "-c", SMOKE, str(ROOT)], check=True, cwd=directory)
        for command in (["--version"], ["--help"], ["broker", "--help"], ["dump-log", "--help"]):
            subprocess.run(
                [str(environment / "bin" / "tierfetch"), *command], check=True, cwd=directory, stdout=subprocess.DEVNULL
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
