"""The broker in its cluster: what it knows of it, what it reports to the controllers, its registration and heartbeats.

controller_channel     Questions to the active controller
directory_assignments  AssignReplicasToDirs (KIP-858)
isr_changes            AlterPartition
lifecycle              A broker's life in its cluster
quorum_view            The cluster as the controllers' metadata log tells it
topic_config           From the broker's `log.*` keys to the defaults of a topic's configuration, and what
view                   The `ClusterView` port
"""
