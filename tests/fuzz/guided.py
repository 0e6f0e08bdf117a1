"""Fuzz one target, guided by the coverage of its code (Atheris, libFuzzer).

    python -m tierfetch.tests.fuzz.guided TARGET NEW_INPUTS -max_total_time=60 [option of libFuzzer]...

Atheris is what guides: libFuzzer's mutations and its record of covered branches, also of bytes compared with constants.
HypoFuzz would guide strategies, but its inputs are no bytes that could be kept as files. NEW_INPUTS is a folder that is
filled with inputs that reach new code. A failing one is written to `tests/fuzz/corpus/TARGET/`, where `make test`
replays it; shrink it with `-minimize_crash=1 -runs=20000 FILE`.
"""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX: Final = 4096
RESIDENT_MIB_MAX: Final = 400
INPUT_SECONDS_MAX: Final = 2


def main(name: str, new_inputs: str, *options: str) -> None:
    import atheris  # not installed for the tests

    with atheris.instrument_imports(include=["tierfetch"], enable_loader_override=False):
        targets = importlib.import_module("tierfetch.tests.fuzz.targets")
    logging.disable(logging.CRITICAL)
    found = CORPUS / name
    found.mkdir(parents=True, exist_ok=True)
    arguments = (
        *(f"-artifact_prefix={found}/", f"-max_len={INPUT_BYTES_MAX}", f"-rss_limit_mb={RESIDENT_MIB_MAX}"),
        *(f"-timeout={INPUT_SECONDS_MAX}", "-print_final_stats=1", *options, new_inputs, str(found)),
    )
    atheris.Setup([sys.argv[0], *arguments], lambda data: targets.run(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
