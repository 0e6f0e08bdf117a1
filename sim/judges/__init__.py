"""Who judges a run, after each event and at its end.

acknowledged_writes  Judges of a finished run, in the words of Maelstrom's kafka workload. Pure
allowed_losses       What the fault model permits to be lost, and what may therefore have been seen that is not
client_answers       What clients are told beside records, judged with the answer
coverage             Whether every offset of a log is somewhere
durability           What of a log is on a machine's disk, whatever its process believes
fencing              Whether a broker that is fenced deserved it. Exact
final_state          Takes brokers, their files and the store apart into the values that the checkers of replicas
heartbeats           What brokers have told the active controller in their heartbeats, read off at the
history              What clients did and what they were told
invariants           What must hold after every event of a run, for the replicas of one partition. Pure
isr_leavers          Whether who leaves an ISR had to
isr_members          Whether in-sync replicas are
loss_tracker         Watches what the brokers of a world lose, and turns what is permitted into allowed for the
losses               Which losses the fault model permits
metadata_invariants  What must hold of the cluster's metadata after every batch of its log. Pure
metadata_trace       The lines of a trace about the cluster's metadata
observer             Looks at the brokers after every event, and tells the invariants what has changed. One line
operator_elections   Unclean elections that an operator asks for
pace                 Whether a cluster comes to rest, or runs in a circle
quorum_replicas      Looks at the replicas of a quorum after every event. One line for each transition, and the
replicas             Judges of what lies on the disks and in the tier when a run has converged. Pure
retention            Whether retention takes what it may, and nothing else
thin_leaders         Whether a thin replica was made the leader while a full one could lead
tiered_records       Whether only what is stable goes to the tier, and all that is said to be there
truth                The cluster as its metadata log has it, told by whichever controller applies a batch first
"""
