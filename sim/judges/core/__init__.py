"""The judges that do no I/O: events and values in, violations and anomalies out.

events               All that is observed of a run: one union of frozen values.
judge                `Judge` is the protocol of all judges, `Judges` is all judges of a run as one.

While a run lasts, each in a class `...Judge`:

client_answers       Clients are given nothing that is not committed, kept, or true of the leader's log.
clients/             What clients may count on: answers, owners of partitions, last values of keys.
coordinators         Groups and transactional producers get answers that hold: owners, offsets, epochs.
coverage             Every offset of a log is in the local log or in the store.
fencing              A broker that is fenced deserved it, by the heartbeats that its controller had.
hand_overs           A broker that shuts down in order hands over what another member could lead.
heartbeats           A process of the past is refused; other judges ask here which heartbeats a controller had.
isr_leavers          A member leaves an ISR only if it lagged, stopped, or lost its log.
isr_lingerers        A member that lags is asked out of the ISR in time, faults or not.
isr_members          A member of an ISR has everything that is committed, on its disk as far as it must.
pace                 A cluster without faults comes to rest.
partition            The replicas of one partition: one leader an epoch, nothing committed lost, no divergence.
quorum/              The epochs of the quorum, and who votes in it.
thin_leaders         A thin replica is not elected while a full one could lead.
throttles            Only the client with a quota is throttled.
tiered_records       Only stable records are uploaded, and what the ledger calls finished is in the store.
unfenced             A broker that is silent for its session is fenced in time, faults or not.
truth                All controllers apply the same metadata; elections and ISRs follow its rules.
metadata_image       The rules of one image of the metadata, and of one change of a partition.

When a run is over:

acknowledged_writes  The history of clients against the final log, in the words of Maelstrom's kafka workload.
exactly_once         What workers committed they did once, and every transaction as a whole.
replicas             The bytes of all replicas and of the tier against each other.

What they go by:

allowed_losses       Which losses the fault model allows, and what may have been seen because of them.
history              What clients did and how it ended.
"""
