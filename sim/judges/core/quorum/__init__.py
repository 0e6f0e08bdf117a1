"""What must hold of the quorum of controllers, beside its log (`judges.quorum_replicas`).

epochs  The epoch of the quorum stays where elections put it.
voters  Voters change one at a time, in one line; who is added has caught up, who is removed leads no longer.
"""
