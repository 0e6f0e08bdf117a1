"""A KRaft replica as a state machine: events in, effects out (KIP-595, KIP-630, KIP-853, KIP-996). Pure.

config          The timeouts and limits of the quorum, under Kafka's names (`controller.quorum.*`)
effects         Everything that a `RaftCore` wants done. `step` returns them in the order in which they are to be
election        Who leads: votes asked for, given, counted (KIP-595), pre-votes before them (KIP-996)
errors          What can go wrong with an append, or with the replica as a whole, for those who use it
events          Everything that can happen to a `RaftCore`. The shell hands in one at a time, with the time
follower        Keeping up with a leader, and finding one
high_watermark  Majority arithmetic
identity        Whether who fetches under a static voter's id is that voter (kraft.version 0)
leader          Leading an epoch
leader_fetch    What a leader answers to Fetch, FetchSnapshot and DescribeQuorum, and what it learns from them
leader_log      A leader's appends: offsets given, batches gathered, written together
log_view        What a core knows of its own log, without reading it
machine         A KRaft replica as a state machine
membership      Adding, removing and updating voters, one at a time, and putting them into the log (KIP-853, Raft
messages        What replicas of the quorum say to each other, as values of ours; mapping to the wire is elsewhere
proof           What a replica that can vote has to prove when it began without what it had
replica         One replica's state that outlives its roles, the way its effects take, and nothing that decides
requests        Checks that several requests share, and the errors that they answer with (KIP-595, "common error
resignation     Leaving in good order
roles           What a replica keeps only while it is in one state. A transition drops the old role and makes a
snapshot_fetch  A follower that is too far behind takes the leader's snapshot (KIP-630)
starting        Which state a replica starts in, from what was on its disk
state           The nouns of the quorum
transitions     From one state to another
voter_requests  What a follower asks its leader for about itself
voters          Who votes: the voter set, and its history as the log tells it (KIP-853)
"""
