"""What a replica of the quorum keeps on disk, and how that is formatted and recovered.

metadata_log     is `__cluster_metadata-0`: a log with its snapshots.
snapshots        cuts, fetches, serves and removes snapshots.
snapshot_file    writes and checks one snapshot file (KIP-630).
control_batches  converts the core's values to batches and back.
election_file    reads and writes `quorum-state`.
vote_keeper      is the one task that writes `quorum-state` and the mark of an unproven voter.
recovery         puts together what a replica knows at its start.
bootstrap_file   reads and writes the records that a new cluster begins with.
formatting       formats log directories, as Kafka's storage tool does.

What is exported here is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .bootstrap_file import read_bootstrap
    from .formatting import FormatOrder, FormatResult, format_directories, identify, new_directory_id
    from .metadata_log import METADATA_PARTITION
    from .snapshot_file import parse_snapshot_name

__all__ = [
    "METADATA_PARTITION",
    "FormatOrder",
    "FormatResult",
    "format_directories",
    "identify",
    "new_directory_id",
    "parse_snapshot_name",
    "read_bootstrap",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "FormatOrder": "formatting",
            "FormatResult": "formatting",
            "METADATA_PARTITION": "metadata_log",
            "format_directories": "formatting",
            "identify": "formatting",
            "new_directory_id": "formatting",
            "parse_snapshot_name": "snapshot_file",
            "read_bootstrap": "bootstrap_file",
        },
    )
