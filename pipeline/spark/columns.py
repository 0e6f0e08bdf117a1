"""The columns of the table, as Spark's Kafka source names and types them."""

from __future__ import annotations

from difflib import get_close_matches
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

from ..access.options import OptionError, TierOptions

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


def schema(options: TierOptions) -> StructType:
    """What a query has that names no columns."""
    fields = [*KAFKA_COLUMNS, *(METADATA_COLUMNS if options.metadata else [])]
    if options.column_name_of_corrupt_record is not None:
        fields.append(_corrupt_record(options))
    return StructType(fields)


def check_schema(asked: StructType, options: TierOptions) -> None:
    """OptionError names a column that is none, with the right one, or one of another type."""
    known = {field.name: field for field in [*KAFKA_COLUMNS, *METADATA_COLUMNS, _corrupt_record(options)]}
    for field in asked:
        if field.name not in known:
            folded = {name.lower(): name for name in known}
            nearest = get_close_matches(field.name.lower(), folded, 1)
            hint = f"; did you mean {folded[nearest[0]]}?" if nearest else "."
            raise OptionError(
                f"the schema names the column {field.name}, which is unknown{hint} Columns: {', '.join(known)}"
            )
        right = known[field.name].dataType
        if field.dataType != right:
            raise OptionError(
                f"column {field.name} is {right.simpleString()}, the schema says {field.dataType.simpleString()}: read "
                "it as it is, and cast it"
            )


def _corrupt_record(options: TierOptions) -> StructField:
    """OptionError for the name of another column, which would be null in every record."""
    name = options.corrupt_column
    if name in {*KAFKA_COLUMNS.names, *METADATA_COLUMNS.names}:
        raise OptionError(f"columnNameOfCorruptRecord is {name}, which is a column of records: choose another name")
    return StructField(name, StringType())
