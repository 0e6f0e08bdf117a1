"""Jobs over a tier on Spark: audit it, export it, profile it, and sweep a model over many clusters.

Each takes a session (`tierfetch.pipeline.local_session`, or any classic one) and, but for `sweep`, the options of the
table: `audit(session, {"location": "s3://bucket/tier", "topics": "orders"})`. `tierfetch spark` is the same on a
command line.

work             spreads work over a Spark cluster and gathers the results.
auditing         audits a tier in parallel (`tier verify --deep`).
audit_described  audits layouts whose segments describe themselves.
audit_report     builds the audit's JSON document and rows.
audit_page       writes the audit as an HTML page.
exporting        exports a tier to Parquet by topic and day, each record once.
export_files     writes Parquet files in an executor.
export_log       keeps the commits that make an export idempotent.
export_place     opens the place where an export goes.
profiling        profiles a tier: sizes, rates, codecs, skew, compaction.
batch_sums       sums up the batch headers of a split.
profile_report   builds the profile's JSON document.
profile_page     writes the profile as an HTML page.
sweeping         runs a model many times in parallel.
"""

from ..spark.spark_faults import JobError, spark_faults
from .audit_page import audit_page
from .audit_report import TierAudit
from .auditing import audit, save_parquet
from .exporting import ExportReport, compact_to
from .profile_page import profile_page
from .profile_report import TierProfile, TopicProfile
from .profiling import profile
from .sweeping import save_rows, sweep

__all__ = [
    "ExportReport",
    "JobError",
    "TierAudit",
    "TierProfile",
    "TopicProfile",
    "audit",
    "audit_page",
    "compact_to",
    "profile",
    "profile_page",
    "save_parquet",
    "save_rows",
    "spark_faults",
    "sweep",
]
