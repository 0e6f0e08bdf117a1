"""Hostile clients at real processes, with an honest client beside them (`make test-abuse`).

attacks      builds the hostile requests, as bytes.
honest       is the honest client, a process of its own: it pings, produces and fetches, and writes down each wait.
test_broker  attacks a broker.
test_controller  attacks a controller.
"""
