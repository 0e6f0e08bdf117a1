"""Jobs over a tier on Spark: audit it, export it, profile it, and sweep a model over many clusters.

Each takes a session (`tierfetch.pipeline.local_session`, or any classic one) and, but for `sweep`, the options of the
table: `audit(session, {"location": "s3://bucket/tier", "topics": "orders"})`. `tierfetch spark` is the same on a
command line.
"""

from ..spark.spark_faults import JobError
from .auditing import audit
from .exporting import compact_to
from .profiling import profile
from .sweeping import sweep

__all__ = ["JobError", "audit", "compact_to", "profile", "sweep"]
