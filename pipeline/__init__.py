"""The tier as a Spark table: it plans from what is in the tier, decodes whole columns, and asks no broker for them.

spark/     is the Spark side: data source, streams, sessions.
planning/  plans in the driver: from the stores' contents to tasks.
reading/   reads one split in an executor.
core/      chooses bytes by offset and decodes them to Arrow columns.
access/    opens the stores and the brokers.
layouts/   knows how segments are laid out in a store.
jobs/      audits, exports and profiles a tier on Spark.
pages/     frames the reports of the jobs as HTML.

A script that uses the table needs the two names below; one that runs jobs, those of `jobs`.
"""

from .spark.session import local_session, register

__all__ = ["local_session", "register"]
