"""What Spark raises, in a line: what the task said, without the traces of two languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...extras import needing
from ...protocol import OperatorError

_LAST_ERROR: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Exception)): (.*)$", re.MULTILINE)


class JobError(OperatorError):
    """The job cannot continue; the message is for the person who started it, and holds no secrets."""


@contextmanager
def spark_faults() -> Iterator[None]:
    """Spark's exceptions as JobError. MissingExtraError without Spark."""
    with needing("spark"):
        import pyspark  # noqa: F401 - what one installs; the next is only what it brings
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise JobError(said_by(str(error))) from error


def said_by(trace: str) -> str:
    """The last error that a Python traceback within a Java one names, without the traces."""
    found = _LAST_ERROR.findall(trace)
    named = [(kind, text) for kind, text in found if text and "Traceback" not in text and "SparkException" not in kind]
    if not named:
        return trace.strip().splitlines()[0]
    kind, text = named[-1]
    return f"{kind}: {text}"
