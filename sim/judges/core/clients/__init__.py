"""What clients may count on, judged as they are answered, or at the end.

answers       A request is answered in time, unless a fault has touched one of the two hosts.
beginnings    The past of which a log knows its producers: the log start that it began with.
compacted     The replicas of a compacted topic: every key has its last value on each.
copies        What is read from the tier alone, or followed, is what the cluster has.
deliveries    A record of a share group has one holder, deliveries that are counted, and one end.
given         The bytes that readers are given are those of the log.
looks         What operators are shown of a cluster at rest is what its metadata has.
ownership     A partition of a group of KIP-848 has one owner at a time, and one in time.
share_events  What the members of share groups are answered.
"""
