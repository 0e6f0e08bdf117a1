"""The controller as a machine: requests and the time in, metadata records and responses out. Pure.

alter_partition        AlterPartition and AssignReplicasToDirs: what brokers report about their own replicas
assignments            New partitions of a topic
bootstrap              The first records of a new cluster: the levels that it begins at
broker_changes         What follows for partitions when a broker comes, goes, or loses a directory
broker_heartbeat       BrokerHeartbeat
broker_registration    BrokerRegistration, ControllerRegistration and UnregisterBroker
cluster                Small things that concern the cluster as a whole
config                 What an operator sets for a controller, and what this release of it supports
configs                Dynamic configs of topics and brokers
describe_configs       DescribeConfigs, as a controller answers it
fast_failover          When to fence a broker before its session ends: proof that its process is gone
features               Feature levels (KIP-584): who may register, and UpdateFeatures
leader_election        Elections that somebody asks for
machine                The controller as a machine without I/O
partition_change       From what shall become of one partition to the record that says so
partition_counts       CreatePartitions
placement              Where new replicas go
reassignment           AlterPartitionReassignments and ListPartitionReassignments (KIP-455)
reassignment_replicas  Reassignment of one partition as arithmetic on replica lists (KIP-455)
refusals               Answers of a controller that does not decide
sessions               Which brokers have been heard of lately, on the active controller
state                  What a decision looks at
thin                   Which replicas are thin
topics                 CreateTopics and DeleteTopics. Each topic is done, or refused, by itself; those of one
"""
