"""`tierfetch topics|offsets|configs|brokers|reassign|...`: administer any Kafka cluster through any of its brokers.

topics            lists, describes, creates, alters, grows, shrinks and deletes topics.
topic_changes     plans and sends what `topics alter` changes.
configs           shows and sets configs of topics, brokers and groups.
near_keys         guesses what was meant by a config that the cluster does not know.
brokers           lists the brokers and what they hold.
broker_wait       waits until a broker that was down or replaced holds again what it must.
log_dirs          lists log directories with their bytes and replicas.
local_state       reads what is on a broker's disks (DescribeLogDirs).
partition_offsets is `tierfetch offsets`: where partitions begin and end, in the tier and on disk.
record_deletion   is `tierfetch delete-records`.
elections         is `tierfetch elect-leaders`.
leaders           asks the leader of each partition.
features          shows and raises feature levels (KIP-584).
reassign          is `tierfetch reassign`: plan, execute, pause, resume, cancel, roll back.
reassign_plan     is `reassign plan`: it writes the plan as a file and prints tables.
reassign_run      carries a plan out: it reads the cluster, asks `planning.execution`, and performs the step.
reassign_cluster  reads and changes the live cluster for a plan.
reassign_journal  keeps the journal of one plan on disk.
plan_notes        has the console find the plans that are carried out.
outlook_text      words predictions of moves that run, and keeps the history of what came of them.
status_bar        shows progress on standard error.
"""
