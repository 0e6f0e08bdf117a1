"""Start what benchmarks and interoperability tests need beside us, on loopback.

kafka  starts a cluster of Apache Kafka: one controller and some brokers, with tiering.
jars   fetches Apache Kafka's jars from Maven Central.
s3     starts an S3 server that is written in Go, and builds it on first use.
child  runs programs as processes of their own.
voter  runs a replica of the quorum as a process.
relay  is a network of a known delay.
topology  says which namespaces, links and switches a network has, and which commands make and remove them.
network  makes it: a namespace with shaped links for each node of a cluster, racks with uplinks, distances.
"""
