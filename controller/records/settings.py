"""Records about configs, features, quotas, producer ids, and transactions of records."""

from .schema import (
    MetadataRecord,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    metadata_record,
    string,
    structure,
)


@metadata_record(api_key=4)
class ConfigRecord(MetadataRecord):
    """A value of None removes the key."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string()


@metadata_record(api_key=12)
class FeatureLevelRecord(MetadataRecord):
    """Level 0 removes the feature."""

    name: str = string()
    feature_level: int = int16()


@structure
class QuotaEntity(MetadataRecord):
    entity_type: str = string()
    entity_name: str | None = string()


@metadata_record(api_key=14)
class ClientQuotaRecord(MetadataRecord):
    entity: tuple[QuotaEntity, ...] = array()
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@metadata_record(api_key=15)
class ProducerIdsRecord(MetadataRecord):
    """`next_producer_id` is the first id that was not given out yet."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    next_producer_id: int = int64()


@metadata_record(api_key=20)
class NoOpRecord(MetadataRecord):
    pass


@metadata_record(api_key=21)
class ZkMigrationStateRecord(MetadataRecord):
    zk_migration_state: int = int8()


@metadata_record(api_key=23)
class BeginTransactionRecord(MetadataRecord):
    """What follows counts when EndTransactionRecord has come, and never if AbortTransactionRecord comes (KIP-868)."""

    name: str | None = string(tag=0, default=None)


@metadata_record(api_key=24)
class EndTransactionRecord(MetadataRecord):
    pass


@metadata_record(api_key=25)
class AbortTransactionRecord(MetadataRecord):
    reason: str | None = string(tag=0, default=None)
