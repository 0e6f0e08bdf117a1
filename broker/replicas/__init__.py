"""The replicas that a broker hosts: their roles, their followers, their fetchers, and what fills them.

damaged_logs           What becomes of a replica whose local log is damaged
delayed                What waits for offsets to move
fetcher_pool           The fetchers of one broker
followed_partition     A hosted partition as a fetcher sees it
hosted_partitions      Look-up of the partitions that this broker hosts, by what a request says; the errors of a
leader_endpoint        A broker as the leader that this one follows
leadership             One leader epoch of one led partition
manager                Makes what this broker hosts follow the cluster image
partition              A hosted replica in a role
replication_throttles  The replication throttles of one broker, as the cluster's dynamic configs have them now
resting_fetches        The fetch sessions in which a led partition rests
thin_replicas          Which replicas of this broker are thin (KIP-1023's drawback)
warmer                 Fills thin replicas' local logs from the tier in the background, until they have warmed
"""
