"""The console: a web page that shows a cluster, ours or Apache Kafka's. It reads, and changes nothing.

core/    is what is shown, as values: signs, bars, pages, which hosts may ask.
"""
