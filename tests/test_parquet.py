"""Parquet of others: plain tables come back as they were, anything else is refused in words."""

import base64
import datetime
import io

import polars
import pyarrow
import pyarrow.parquet
import pytest

from atoll.parquet import NotParquet, read_parquet

PLAIN = polars.DataFrame(
    {
        "id": ["a", None, "c"],
        "x": [1.5, float("nan"), None],
        "n": polars.Series([1, 2, 3], dtype=polars.UInt8),
        "rows": [[1, 2], [], None],
        "day": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
        "at": [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)] * 3,
        "both": [{"a": 1, "b": "x"}] * 3,
        "nothing": [None] * 3,
    }
)
LISTED_DURATIONS = pyarrow.list_(pyarrow.struct({"long": pyarrow.duration("ms")}))


def written(frame, **options):
    file = io.BytesIO()
    frame.write_parquet(file, **options)
    return file


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"])
def test_a_table_comes_back_as_it_was(compression):
    assert read_parquet(written(PLAIN, compression=compression)).equals(PLAIN)


def test_categories_are_read_as_their_words():
    words = polars.Series(["a", "b", None], dtype=polars.Categorical)
    ranks = polars.Series(["lo", "hi", "lo"], dtype=polars.Enum(["lo", "hi"]))
    found = read_parquet(written(polars.DataFrame({"word": words, "rank": ranks})))
    assert found.equals(polars.DataFrame({"word": ["a", "b", None], "rank": ["lo", "hi", "lo"]}))


def test_a_file_says_nothing_of_its_types_that_is_believed():
    """What polars notes of a category ended its own reader in a panic."""
    kind = pyarrow.dictionary(pyarrow.uint32(), pyarrow.string())
    field = pyarrow.field("word", kind, metadata={b"_PL_CATEGORICAL2": b"0;\xff;u32;"})
    schema = pyarrow.schema([field], metadata={b"\xff": b"\xfe"})
    column = pyarrow.array(["a", "b"]).dictionary_encode().cast(kind)
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table([column], schema=schema), file)
    assert read_parquet(file).equals(polars.DataFrame({"word": ["a", "b"]}))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pyarrow.array([2**31 - 1], pyarrow.date32()), "dates or times that there are not"),
        (pyarrow.array([2**62], pyarrow.timestamp("us")), "dates or times that there are not"),
        (pyarrow.array([2**62], pyarrow.duration("ms")), "dates or times that there are not"),
        (
            pyarrow.array([[{"long": 2**62}]], LISTED_DURATIONS),
            "dates or times that there are not",
        ),
        (pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())), "type map"),
    ],
)
def test_values_that_end_in_panics_are_refused(column, said):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"x": column}), file)
    with pytest.raises(NotParquet, match=said):
        read_parquet(file)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"a,b\n1,2\n"])
def test_what_is_no_parquet_is_refused(content, tmp_path):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(NotParquet):
        read_parquet(tmp_path / "x.parquet")
    with pytest.raises(NotParquet):
        read_parquet(tmp_path / "nowhere.parquet")


def test_a_time_zone_whose_name_is_no_text_is_refused():
    """It is in a note of the file's writer, in base64."""
    file = io.BytesIO()
    since = [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]
    pyarrow.parquet.write_table(polars.DataFrame({"since": since}).to_arrow(), file)
    metadata = pyarrow.parquet.read_metadata(file).metadata
    note = metadata[b"ARROW:schema"]
    other = base64.b64encode(base64.b64decode(note).replace(b"UTC", b"U\xffC"))
    assert other != note
    content = file.getvalue().replace(note, other)
    with pytest.raises(NotParquet, match="decode"):
        read_parquet(io.BytesIO(content))
