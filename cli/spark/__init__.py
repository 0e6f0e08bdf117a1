"""`tierfetch spark`: run jobs over a tier on Spark, on this machine or on a cluster.

command        lists the subcommands.
session        opens the tier and Spark, and reports errors in one line.
audit          is `spark audit`.
compact        is `spark compact-to`.
profile        is `spark profile`.
sweep          is `spark sweep`.
sweep_report   computes the JSON document of a sweep.
sweep_page     writes a sweep as an HTML page.
sweep_picture  draws a sweep as one SVG picture.
demo           is `spark demo`: it makes a tier, stops its brokers, then reads, audits, profiles and exports it.
"""

from .command import spark

__all__ = ["spark"]
