"""Measure tierfetch and Apache Kafka in turn, on the same machine and the same data. A benchmark is never a gate.

`python -m bench NAME` runs one; docs/benchmarks.md has the figures.

measure      keeps and prints figures: every value, min, median, max, ratios, the load of the machine.
systems      puts both systems behind one interface, each as a cluster on loopback.
options      are what several commands take in the same way.
workload     produces and observes, the same for both systems.
lab/         starts Apache Kafka on loopback.
replication  measures the catch-up of a follower without a tier.
replace      measures the replacement of a wiped follower.
kill         measures what clients see when a leader is killed or stopped.
produce      measures produce with acks=all, by record size.
snapshots    measures a restart with and without a ledger snapshot.
ledger       measures what an event of the remote log metadata costs.
latency      measures produce latency, alone and while segments are copied.
consume      measures consumption from local segments and from the tier.
startup      measures process start and idle memory, and the start of a test's cluster.
election     measures the election of a controller after a SIGKILL.
failover     measures a failover of many partitions with real controllers.
append       measures appends to the metadata quorum.
expiry       measures what appends wait for while retention removes segments.
controller   measures a controller's image and decisions for large clusters.
images       measures what a new image costs a broker.
planner      measures how fast plans are made, and how close to optimal they are.
model_speed  measures how fast the model is.
simulation   measures how fast the simulator is.
ceiling      measures what the machine allows without any broker.
warm_memory  hands memory that the host has already backed to the system under test.
copying/     measures what producers wait for while segments are copied to the tier.
curves/      measures how costs grow with partitions and with clients.
fetching/    measures what brokers serve to a reader that decodes nothing, from disks and from S3.
everything/  runs all of them in a short form.
model/       checks the model's predictions against real replacements, failovers and rebalances.
witness/     checks them against the simulated cluster, where links limit.
partitions/  measures a broker with many partitions, from start to failover.
pythons/     compares interpreters and event loops.
replacement/ measures the replacement of a broker with many partitions, and draws where each 10 ms goes.
secure/      measures what TLS costs clients and brokers.
soak/        looks for growth while a cluster is busy for long.
spark/       measures the Spark source.
"""
