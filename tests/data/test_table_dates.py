"""ISO dates are numbers, others are refused."""

import polars
import pytest

from atoll.data.table_dates import are_other_dates, parse_dates


def test_dates_are_years_since_2000():
    text = polars.Series(["2000-01-01", "2000-01-01T12:00", "2003-01-01", "2000-13-01", "soon"])
    years = parse_dates(text).to_list()
    assert years[:2] == [0.0, 0.5 / 365.25]
    assert years[2] == pytest.approx(1096 / 365.25)
    assert years[3:] == [None, None]
    stamps = polars.Series(["2000-01-01", "2003-01-01"]).str.to_date()
    assert parse_dates(stamps).to_list() == [0.0, years[2]]


@pytest.mark.parametrize(
    "text", ["31/05/2024", "5/31/2024", "31.5.2024 12:30", "2024/05/31", "05.12.99"]
)
def test_dates_of_other_forms(text):
    assert are_other_dates(polars.Series([text, None]))


@pytest.mark.parametrize(
    "text", ["2024-05-31", "1.2.30", "10.0.0.1", "12-34-56", "1/2", "north", ""]
)
def test_what_is_no_such_date(text):
    assert not are_other_dates(polars.Series([text]))
