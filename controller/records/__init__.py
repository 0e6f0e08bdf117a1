"""Kafka's metadata records: what the records of `__cluster_metadata` say, and their bytes.

* `brokers`, `topics`, `settings`, `security`: the records, one frozen dataclass each
* `codec`: record <-> bytes; `schema`: how a dataclass becomes kio's entities; `printing`: rows for people

    decode_record(encode_record(TopicRecord(name="t", topic_id=id))).record
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
