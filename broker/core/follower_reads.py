"""What a consumer may read from a follower (KIP-392): the decision of one fetched partition. Pure.

In this order; the first row that applies is the answer:

    state of the request                                    decision
    ------------------------------------------------------  ------------------------------------------------------------
    leader epoch given and too low / from the future        FENCED_LEADER_EPOCH / UNKNOWN_LEADER_EPOCH
    offset outside this replica's log                       OFFSET_OUT_OF_RANGE: it may lag, the leader has to judge
    last fetched epoch unknown here, or ended earlier here  OFFSET_OUT_OF_RANGE too: a follower's tail may have to go,
                                                            so it reports no divergence
    at or above its high watermark (last stable offset)     ServeEmpty, until it has heard more
    below its local log start                               ReadRemote
    else                                                    Serve

A client that is refused with OFFSET_OUT_OF_RANGE by a follower asks the leader before it believes it.
"""

from __future__ import annotations

from ...fetcher.core import DivergingEpoch, FetchDecision, FetchPosition, LeaderView, Refuse, validate_fetch
from ...protocol import ErrorCode


def validate_follower_read(view: LeaderView, position: FetchPosition) -> FetchDecision:
    """The table. `view` is of the follower itself, with the leader epoch as the cluster's metadata has it."""
    assert not position.is_from_follower, f"replica {position.replica_id} may fetch from a leader only"
    decision = validate_fetch(view, position)
    if isinstance(decision, DivergingEpoch):
        return Refuse(
            ErrorCode.offset_out_of_range,
            f"offset {position.fetch_offset} of epoch {position.last_fetched_epoch} is not known to this follower",
        )
    return decision
