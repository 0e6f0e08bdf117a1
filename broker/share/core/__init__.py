"""The decisions about what a share group has under way in one partition (KIP-932). Pure: no clock, no I/O.

runs              keeps the state of every offset between the start and the end, as runs of equal ones.
acknowledgements  checks what a consumer says of its records, and cuts it into ranges of one kind.
partition         decides who gets which records, and what an acknowledgement, a lock that ends, or a lost write does.
sessions          remembers what each member fetches, and the epoch that its next request must have.
"""
