"""Does the model of replacement tell the truth? Scenarios predicted, then run, on tierfetch and Apache Kafka.

scenario.py     what is run: calibration scenarios, test scenarios, never the same
lab.py          one cluster of two brokers for each system, with a tier that can be slow
replacement.py  a scenario's data, its load, and a broker that is killed, wiped and replaced, timed from outside
timing.py       what one run came to
forecast.py     the same from an inventory of the live cluster, by the model
fit.py          the model's constants from the calibration scenarios
judge.py        predicted against measured: error, spread, verdict
record.py       the JSON document, written after every run
report.py       tables, and docs/model-proof.md
session.py      all scenarios in turn
"""
