"""The `tierfetch spark` group."""

from __future__ import annotations

import click

from .audit import audit_tier
from .compact import compact_tier
from .demo import demo
from .profile import profile_tier
from .sweep import sweep_model


@click.group("spark")
def spark() -> None:
    """Audit, export and profile a tier on Spark, and sweep the model of replacement over many clusters.

    \b
    LOCATION is a directory, s3://BUCKET/PREFIX or any fsspec URL:
      tierfetch spark audit s3://bucket/tier --html audit.html
      tierfetch spark compact-to s3://bucket/tier exports/ --topic orders
      tierfetch spark profile tier/ --master spark://head:7077

    Credentials come from the environment of the executors, or by --option storage.KEY=VALUE. On a cluster the executors
    need this package installed, and the rights to read the tier; nothing else.
    """


for command in (audit_tier, compact_tier, demo, profile_tier, sweep_model):
    spark.add_command(command)
