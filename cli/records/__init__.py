"""`tierfetch produce` and `tierfetch consume`: records from and to a terminal or a pipe, through librdkafka.

produce     is `tierfetch produce`.
consume     is `tierfetch consume`.
connection  translates `--command-config` into librdkafka's properties.
formats     turns records into text, and lines into records; pure.
"""
