"""Kafka's metadata records: the records of `__cluster_metadata` as values, and their bytes.

`decode_record(encode_record(record)).record` equals `record`.

topics    declares the records of topics and partitions.
brokers   declares the records of brokers and controllers.
settings  declares the records of configs, features, quotas, producer ids and metadata transactions.
security  declares the records of users and ACLs, which the image only keeps.
codec     encodes and decodes a record.
schema    declares how each version of a record becomes kio's entity.
printing  prints records as `kafka-dump-log --cluster-metadata-decoder` does.
"""

from .brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from .codec import MetadataRecordError, VersionedRecord, decode_record, encode_record
from .printing import record_row
from .schema import MetadataRecord
from .security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from .settings import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from .topics import (
    LEADER_UNCHANGED,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemovePartitionsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

__all__ = [
    "LEADER_UNCHANGED",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecord",
    "MetadataRecordError",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntity",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemovePartitionsRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "VersionedRecord",
    "ZkMigrationStateRecord",
    "decode_record",
    "encode_record",
    "record_row",
]
