"""The plan of the remote log manager, and what it looks at. Pure.

plan        decides every copy, proof and deletion of one partition: `plan(view, now_ms) -> actions`.
view        holds what the plan looks at: one partition at one moment.
moment      is a time that remembers until when a decision would be the same.
rest        says when a partition need not be looked at: nothing has changed on which the last look depended.
retention   computes what retention by size and time asks to delete.
warming     decides what a thin replica takes back from the tier.
held_back   says which open transaction holds back the copies, and when that is reported.
read_ahead  says how much is fetched ahead of a consumer that reads on, and how much of it by one request.
expected    counts which chunks consumers are about to read, and says which they have passed.
guess       says where a batch probably is while the index of its segment is fetched.
quota       is a token bucket in bytes per second.
"""
