"""The order in which a tier that is in use is looked at, so that what happens meanwhile is not reported as damage.

    read the metadata -> audit each partition -> read the metadata on -> audit again where something was found

A segment that was copied or deleted between the first two steps shows up as a finding of the first audit, and not of
the second, which knows what has been written to the metadata before any of its objects changed. What both find is so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition
from ...remote import (
    AuditReport,
    ListsPartitions,
    RemoteStorageError,
    RemoteStorageManager,
    Survey,
    audit_ledger,
    audit_survey,
    confirmed_report,
    survey_partition,
)
from ...remote.core import RemoteLogLedger
from .ledgers import MetadataTopicLedgers

Reports = dict[TopicIdPartition, AuditReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audits:
    """How to audit. `on_plan` gets the bytes of all logs, `on_read` the bytes of each further part that is done."""

    storage: RemoteStorageManager
    topics: Collection[str]
    deep: bool
    now_ms: int
    on_plan: Callable[[int], None]
    on_read: Callable[[int], None]

    async def run(self, ledger: RemoteLogLedger) -> AuditReport:
        return await audit_ledger(ledger, self.storage, now_ms=self.now_ms, deep=self.deep, on_read=self.on_read)

    async def run_again(self, ledger: RemoteLogLedger) -> AuditReport:
        return await audit_ledger(ledger, self.storage, now_ms=self.now_ms)


async def verify(audits: Audits, source: MetadataTopicLedgers) -> Reports:
    """Against the remote log metadata. RemoteStorageError, MetadataUnavailableError."""
    known = await source.read_on()
    ledgers = {partition: ledger for partition, ledger in known.items() if is_wanted(partition, audits.topics)}
    if isinstance(audits.storage, ListsPartitions):
        for partition in await partitions_of(audits.storage, audits.topics):
            ledgers.setdefault(partition, RemoteLogLedger(partition))
    audits.on_plan(sum(ledger.finished_size_bytes for ledger in ledgers.values()))
    reports = {partition: await audits.run(ledgers[partition]) for partition in sorted(ledgers)}
    suspects = [partition for partition, report in reports.items() if report.findings]
    if suspects:
        known = await source.read_on()
    for partition in suspects:
        ledger = known.get(partition, ledgers[partition])
        reports[partition] = confirmed_report(reports[partition], await audits.run_again(ledger), ledger)
    return reports


async def verify_from_objects(audits: Audits) -> Reports:
    """Verify by the objects alone. RemoteStorageError."""
    surveys = await surveyed(audits.storage, audits.topics)
    audits.on_plan(sum(found.ledger.finished_size_bytes for found in surveys))
    return {
        found.ledger.partition: await audit_survey(
            found, audits.storage, now_ms=audits.now_ms, deep=audits.deep, on_read=audits.on_read
        )
        for found in surveys
    }


async def surveyed(storage: RemoteStorageManager, topics: Collection[str]) -> list[Survey]:
    """Every partition by its objects alone. RemoteStorageError if the plugin does not know its partitions."""
    if not isinstance(storage, ListsPartitions):
        raise RemoteStorageError(f"{type(storage).__name__} cannot list partitions: read the remote log metadata")
    return [await survey_partition(storage, partition) for partition in await partitions_of(storage, topics)]


async def partitions_of(storage: ListsPartitions, topics: Collection[str]) -> list[TopicIdPartition]:
    return sorted([partition async for partition in storage.list_partitions() if is_wanted(partition, topics)])


def is_wanted(partition: TopicIdPartition, topics: Collection[str]) -> bool:
    """Whether it is of one of the topics; no topics mean all of them."""
    return not topics or partition.topic in topics
