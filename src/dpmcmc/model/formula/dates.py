"""Parts of dates: the year as a number; quarter, month and day of the week, and years if told to, as categories."""

import re
from datetime import date, timedelta

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Category, Columns

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
QUARTERS = ("Q1", "Q2", "Q3", "Q4")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_CALL = re.compile(r"(year|quarter|month|weekday)\(\s*(?:`([^`]+)`|(\w+))\s*\)")


def read_calendar(factor: str, columns: Columns) -> Category | None:
    """Return ``month(admitted)`` and the like as a category, years only if told to; None if it is something else."""
    is_told = factor.startswith("C(")
    found = _CALL.fullmatch(factor[2:-1].strip() if is_told else factor)
    if found is None or (found[1] == "year" and not is_told):
        return None
    name = found[2] or found[3]
    days = days_of(found[1], name, columns)
    first, last = days[0].year, days[-1].year
    levels, place = {
        "year": (tuple(map(str, range(first, last + 1))), lambda day: day.year - first),
        "quarter": (QUARTERS, lambda day: (day.month - 1) // 3),
        "month": (MONTHS, lambda day: day.month - 1),
        "weekday": (WEEKDAYS, lambda day: day.weekday()),
    }[found[1]]
    codes = [place(day) for day in days]
    held = sorted(set(codes))  # a level without a day between the bounds would be a coefficient without a row
    if len(held) < 2:
        raise InvalidArgument(f"the formula has {factor}, but {name} lies in one {found[1]}; leave it out")
    kept = tuple(levels[code] for code in held)
    return Category(f"{found[1]}({name})", kept, 0, name, tuple(map(held.index, codes)))


def days_of(function: str, name: str, columns: Columns) -> list[date]:
    """Return all days that a column of dates may hold."""
    column = columns[name]
    first = column.lower
    if column.kind != "date" or not isinstance(first, date):
        raise InvalidArgument(
            f"the formula has {function}({name}), but {name} is a {column.kind}; expected a column with kind='date'"
        )
    return [first + timedelta(days=day) for day in range(int(column.bounds[1]) + 1)]
