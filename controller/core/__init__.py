"""The controller as a machine: requests and the time in, metadata records and responses out. Pure.

machine                dispatches a request to its decision, and replays committed records. Begin here.
state                  holds what a decision may read: the image, and what only the active controller knows.
topics                 decides CreateTopics and DeleteTopics.
partition_counts       decides CreatePartitions, including our extension that removes partitions.
assignments            checks or places the replicas of new partitions.
placement              places new replicas in stripes over racks, as Kafka's StripedReplicaPlacer does.
alter_partition        decides AlterPartition and AssignReplicasToDirs.
partition_change       turns a wanted change of one partition into its record. Leaders are elected only here.
leader_election        decides ElectLeaders, preferred-leader balancing and requested unclean elections.
leader_returns         returns preferred leadership to replicas that have become able to lead.
thin                   decides which ISR members are thin.
reassignment           decides AlterPartitionReassignments and ListPartitionReassignments (KIP-455).
reassignment_replicas  computes the replica lists of a reassignment: begin, finish, cancel.
broker_registration    decides BrokerRegistration, ControllerRegistration and UnregisterBroker.
broker_heartbeat       decides BrokerHeartbeat: unfence, fence, controlled shutdown, session expiry.
broker_changes         changes the partitions of a broker that was fenced, returned, or lost a directory.
sessions               remembers when each broker last sent a heartbeat.
fast_failover          decides when a broker may be fenced before its session ends.
features               decides UpdateFeatures, and which nodes may register (KIP-584).
configs                decides IncrementalAlterConfigs and AlterConfigs.
describe_configs       answers DescribeConfigs from the image.
cluster                answers DescribeCluster and allocates blocks of producer ids.
security/              decides about users: SCRAM credentials.
quotas/                decides about the quotas of clients, and applies that of changes to topics.
bootstrap              returns the first records of a new cluster.
config                 declares what an operator sets for a controller.
refusals               builds the error responses of a controller that is not active, too busy, or stopped.
"""
