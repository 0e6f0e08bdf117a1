"""Benchmarks: tierfetch and Apache Kafka in turn, on the same machine and the same data. Never a pass or fail gate."""
