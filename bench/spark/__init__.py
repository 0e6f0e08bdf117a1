"""`python -m bench spark`: the Spark source beside a librdkafka consumer, its decoder, its plans, its memory."""
