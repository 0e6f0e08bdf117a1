"""A local Spark session with the source registered, for laptops, tests and jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def local_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, or a new one, with format "tierfetch" registered. NoJavaError; ImportError that says what
    to install.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError('Spark is not installed: pip install "tierfetch[spark]"') from error
    from .source import TierDataSource

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tierfetch")
    for key, value in {**LOCAL_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(TierDataSource)
    return session
