"""`tierfetch model`: how long replacement, rebalance and failover take, before you touch a cluster.

command           lists the subcommands.
replace           is `model replace` and `model compare`.
rebalance         is `model rebalance`.
failover          computes and prints what a failover comes to.
failover_command  is `model failover`.
calibrate         is `model calibrate`: it measures this machine and, if asked, a live cluster.
capture           is `model capture`: it writes the inventory of a live cluster.
inputs            reads the options that the subcommands share.
options           declares them without numpy, so that `--help` stays quick.
running           simulates the moves under each policy, with progress.
document          builds the JSON document; tables and charts are made from it.
tables            prints the tables.
charts            draws the charts.
report            arranges the HTML report.
page              frames a report as one self-contained HTML file.
quantities        formats seconds, bytes and shares.
observe           takes a snapshot of a live cluster.
snapshot          holds what a live cluster reports at one moment.
estimate          turns two snapshots into an inventory.
remote_sizes      computes what an offset range takes in the tier.
pace              measures how fast the leaders of a live cluster answer.
probes            measures this machine: loopback, disk, checksums, a tier.
"""

from .command import model

__all__ = ["model"]
