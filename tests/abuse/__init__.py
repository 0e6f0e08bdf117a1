"""Hostile clients and peers at real processes, with an honest client beside them (`make test-abuse`).

attacks      builds the hostile requests, as bytes.
honest       is the honest client, a process of its own: it pings, produces and fetches, and writes down each wait.
watched      watches a node under attack: its honest client, its memory, its log.
test_broker  attacks a broker.
test_controller  attacks a controller.
test_transactions  attacks the coordinator of transactions.
test_every_array  makes each array of each request very large, and measures the steps of the event loop.
peers        holds nodes that answer what nodes ask them, with whatever a test says.
test_leader  is a hostile leader that a broker follows.
test_replica  is a hostile replica: what it asks its leader, and reports to the controller.
test_tier    writes over the objects of a tier that a broker reads.
voter        draws what a hostile voter asks and answers.
test_voter   is a hostile voter in the place of one of three controllers.
test_refusals  is refused ten thousand times, and counts the lines of the log.
test_metadata_leader  is a hostile node in the place of the active controller.
"""
