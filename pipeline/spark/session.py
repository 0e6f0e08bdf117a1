"""A local Spark session with the source registered, for laptops, tests and jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ...extras import needing
from .java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
PUSHDOWN_SETTING: Final = "spark.sql.python.filterPushdown.enabled"
LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
"""Where everything runs in this machine: a cluster's executors would look for the driver on their own loopback."""


def local_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, or a new one, with format "tierfetch" registered; `settings` win. Any master will do: its
    executors need this package and the rights to read the tier. NoJavaError, MissingExtraError.
    """
    with needing("spark"):
        from pyspark.sql import SparkSession
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tierfetch")
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    for key, value in {**SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session


def register(session: SparkSession, *, push_filters: bool = False) -> None:
    """Format "tierfetch" for this session. On a cluster a query is refused when it is planned if executors cannot read
    what the driver can (`driver_probe`).

    With `push_filters`, and `PUSHDOWN_SETTING` on, a query's filters spare reading (`pruning`). Spark 4.3 then keeps
    the plan of the filters it saw last with the DataFrame: one that is used again with other filters, or with none,
    gives the rows of the former. So it is for jobs that call `load()` for each query, and off by default.
    ValueError if the setting is off.
    """
    from .driver_probe import open_probe
    from .executors import are_remote
    from .source import FilteringTierDataSource, TierDataSource, asking

    if push_filters and session.conf.get(PUSHDOWN_SETTING, "false") != "true":
        raise ValueError(f"filters are pushed down only in a session with {PUSHDOWN_SETTING} set to true")
    source = FilteringTierDataSource if push_filters else TierDataSource
    session.dataSource.register(asking(source, open_probe(session)) if are_remote(session) else source)
