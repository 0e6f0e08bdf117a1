"""What runs: clusters and quorums, their clients, the administrator, and the runner of seeds.

administrator    The administrator of a cluster
client           A client of the cluster, through the wire
cluster          The cluster scenario
cluster_clients  The clients of a cluster
cluster_nodes    The nodes of a cluster
cluster_options  What a seed of the cluster scenario chooses beside its faults, as the configurations of its
cluster_state    What still keeps a cluster from being at rest, once the faults are over
combined         A process with both roles on a simulated host
controller_taps  Holds up what leaders ask of the controllers, at the controllers' listeners
controllers      A controller's process on a simulated host
final_reads      What clients read of the main topic once a run is over
pipelined        A producer that keeps several idempotent batches of one partition in flight, as Java's does by
quorum           The quorum's scenario
quorum_probes    What a quorum does when nothing fails but a link
report           What one run came to, as values; written as JSON and printed
runner           Runs seeds
workload         What clients do during a run
zombie_brokers   Brokers of the past
"""
