"""What may be wrong with a tier, as values. `remote.audit` has the table of what each kind means."""

from __future__ import annotations

from enum import Enum

from ...light_dataclass import dataclass


class FindingKind(Enum):
    """See the table in the module's docstring."""

    MISSING = "missing"
    WRONG_SIZE = "wrong size"
    CORRUPT = "corrupt"
    GAP = "gap"
    OFF_LINEAGE = "off lineage"
    ORPHAN = "orphan"
    STALE_COPY = "stale copy"
    STALE_DELETION = "stale deletion"
    FOREIGN = "foreign"

    @property
    def is_damage(self) -> bool:
        """Whether data that consumers or new replicas need is affected."""
        return self in {FindingKind.MISSING, FindingKind.WRONG_SIZE, FindingKind.CORRUPT, FindingKind.GAP}


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is a segment id, an object's key or a range of offsets; `message` is for a person. `start_offset` is
    that of a segment that a survey could not describe.
    """

    kind: FindingKind
    subject: str
    message: str
    start_offset: int | None = None

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.subject}: {self.message}"
