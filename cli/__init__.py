"""The `tierfetch` command: arguments, configuration files, signals, exit codes, tables, progress bars.

entry            is the entry point: its first line decides what Ctrl-C does.
main             lists the commands.
lazy_group       imports a command only when it runs, so that `--help` stays quick.
broker           is `tierfetch broker`.
controller       is `tierfetch controller`.
server           is `tierfetch server`: a broker, a controller, or both in one process.
format           is `tierfetch format`: it prepares log directories for a node.
add_scram        parses the credentials of `tierfetch format --add-scram`.
random_uuid      is `tierfetch random-uuid`.
running          runs a node as a process: configuration file, log, signals.
cluster          is `tierfetch cluster up`: a whole cluster on this machine.
cluster_configs  checks what its `--config` gives to the brokers.
admin/           administers a live cluster: topics, offsets, leaders, configs, brokers, features, reassign.
records/         is `tierfetch produce` and `tierfetch consume`.
plugins/         is `tierfetch plugins`.
profiles/        is `tierfetch profile`, and finds the cluster that a command means.
groups/          is `tierfetch groups`.
transactions/    is `tierfetch transactions`.
quorum/          is `tierfetch quorum`.
tier/            is `tierfetch tier`.
model/           is `tierfetch model`.
spark/           is `tierfetch spark`.
console/         is `tierfetch console`: a cluster as a web page.
demo/            is `tierfetch demo`.
local/           starts clusters of processes on loopback.
reference/       writes the generated pages of `docs/`: commands, keys, APIs.
simulate         is `tierfetch simulate`.
simulate_page    writes its page.
dump_log         is `tierfetch dump-log`.
dump_rows        prints the files of a log as text or JSON.
control_text     prints control records as `kafka-dump-log` does.
cluster_session  sends an operator's requests to any broker of a cluster.
command_config   holds the option of how a command connects, and makes its clients.
offsets          asks for offsets in scripts that do not use asyncio.
options          holds the options that several commands share.
"""
