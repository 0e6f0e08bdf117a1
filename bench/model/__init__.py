"""Check whether the model of replacement is right: predict scenarios, then run them on tierfetch and Apache Kafka.

scenario     says what is run. Calibration scenarios and test scenarios are never the same.
draw         draws test scenarios from a seed.
session      runs all scenarios in turn.
stage        declares what it runs them on: a cluster for each.
live         is that on real brokers.
budget       says how long each scenario will take.
progress     says what of a session is left, and where its time went.
lab          starts a cluster of two brokers or more for each system, with a tier that can be slow and narrow.
topics       makes a scenario's topics with their data, and has one broker lag.
replacement  kills, wipes and replaces a broker, and times it from outside.
producers    is the process that produces meanwhile.
moving       plans a rebalance, carries it out with `reassign execute`, and times it from outside.
failing      kills or freezes the leader, and times how long it takes until another broker leads.
traces       reads what brokers' logs and metrics say of one run.
breakdown    says where a measured time went, in the rows of a prediction.
timing       holds the durations of one run.
forecast     predicts the same run from an inventory of the live cluster.
fit          fits the model's constants to the calibration scenarios.
spread       reads off the calibration scenarios how far apart runs are.
judge        compares the prediction with the measurement: error, spread, verdict.
record       writes the JSON document after every run.
report       prints the tables and writes docs/model-proof.md.
command      is the command line.
"""
