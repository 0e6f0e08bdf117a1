"""One module for each family of requests: from a decoded request to its response, over the broker's services.

Produce and Fetch have values of their own (`protocol.wire.produce`, `protocol.fetch.wire`). The other APIs
get and give their message class, in its newest form.

table           maps every API key to its handler. Begin here.
produce         appends one batch a partition and acknowledges it as `acks` demands.
fetch           answers Fetch: sessions, limits, and the wait for enough bytes.
replica_selectors finds the replica selector that is configured.
fetch_reads     reads each fetched partition: asks it for a decision, performs that, and notes whether it may rest.
tier_reads      holds the reads of the tier that a Fetch has under way.
offsets         answers ListOffsets and OffsetForLeaderEpoch.
metadata        answers Metadata and DescribeCluster from the cluster image.
versions        answers ApiVersions.
forwarding      passes requests on to the active controller.
configs         answers DescribeConfigs.
group_configs   refuses configs of groups that are beyond the broker's keys, and forwards the others.
delete_records  raises the log start, and answers once the ISR has followed.
log_dirs        answers DescribeLogDirs.
coordinators    finds the coordinator of a group, of a transactional id or of a share-partition.
groups          answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
group_offsets   answers OffsetCommit, OffsetFetch and OffsetDelete.
consumer_groups answers ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848).
shares/         answers what is asked about share groups (KIP-932).
group_admin     answers ListGroups, DescribeGroups and DeleteGroups.
users           answers about the SCRAM credentials of users.
transactions    answers InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn.
txn_offsets     answers TxnOffsetCommit.
transaction_admin answers DescribeTransactions, ListTransactions and DescribeProducers.
txn_markers     appends commit and abort markers.
"""
