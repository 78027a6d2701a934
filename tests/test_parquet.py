"""Parquet of others: plain tables come back as they were, anything else is refused in words."""

import base64
import datetime
import io
import pickle

import numpy as np
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


class Trap:
    """What unpickling would run."""

    def __reduce__(self):
        return (pytest.fail, ("a file ran code",))


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "arrow.uuid", "arrow.json", "my.own"])
def test_a_type_of_somebody_s_own_runs_nothing(name):
    """Arrow once unpickled what a file said of such a type."""
    note = pickle.dumps(Trap())
    metadata = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": note}
    schema = pyarrow.schema([pyarrow.field("id", pyarrow.binary(16), metadata=metadata)])
    table = pyarrow.table({"id": [b"0123456789abcdef"] * 2}, schema=schema)
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    try:
        found = read_parquet(file)
    except NotParquet:
        return
    assert found["id"].to_list() == [b"0123456789abcdef"] * 2


def test_a_small_file_of_more_rows_than_memory_is_refused_unread(monkeypatch):
    """Equal values take no room: 9 MB were 2,000 million rows, and 16 GB once read."""
    column = pyarrow.array(np.zeros(100_000, dtype=np.int64))
    lists = pyarrow.ListArray.from_arrays([0, 50_000, 100_000], column)
    for table in (pyarrow.table({"id": column}), pyarrow.table({"rows": lists})):
        pyarrow.parquet.write_table(table, file := io.BytesIO())
        assert len(file.getvalue()) < 2_000
        monkeypatch.setattr("atoll.parquet.memory", lambda: 2_000_000)
        assert len(read_parquet(file)) == len(table)
        monkeypatch.setattr("atoll.parquet.memory", lambda: 1_500_000)
        with pytest.raises(NotParquet, match=r"its 100,000 values in .* memory"):
            read_parquet(file)
