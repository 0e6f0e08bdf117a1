"""The simulated cluster as a second witness of the model: production code on virtual time, where networks limit.

case     declares what is simulated, its inventory, and what the model says of it.
cluster  runs it: brokers with shaped interfaces and disks, data, a replacement or a plan.
course   divides the time of a wave into steps, predicted and simulated.
witness  calibrates the model on simulated brokers, runs cases, and compares.
command  is the command line.
"""
