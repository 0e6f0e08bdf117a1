"""The columns of the table, as Spark's Kafka source names and types them."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
KAFKA_COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
METADATA_COLUMNS: Final = StructType(
    [
        StructField("leader_epoch", IntegerType()),
        StructField("producer_id", LongType()),
        StructField("producer_epoch", IntegerType()),
        StructField("sequence", IntegerType()),
        StructField("segment_id", StringType()),
    ]
)


def schema(*, metadata: bool) -> StructType:
    return StructType(KAFKA_COLUMNS.fields + (METADATA_COLUMNS.fields if metadata else []))
