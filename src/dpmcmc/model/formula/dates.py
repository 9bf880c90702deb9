"""Parts of dates: the year as a number, the month and the day of the week as categories."""

import re
from datetime import date, timedelta

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Category, Columns

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_CALL = re.compile(r"(month|weekday)\(\s*(?:`([^`]+)`|(\w+))\s*\)")


def read_calendar(factor: str, columns: Columns) -> Category | None:
    """Return ``month(admitted)`` or ``weekday(admitted)`` as a category; None if the factor is something else."""
    found = _CALL.fullmatch(factor[2:-1].strip() if factor.startswith("C(") else factor)
    if found is None:
        return None
    name = found[2] or found[3]
    days = days_of(found[1], name, columns)
    if found[1] == "month":
        return Category(f"month({name})", MONTHS, 0, name, tuple(day.month - 1 for day in days))
    return Category(f"weekday({name})", WEEKDAYS, 0, name, tuple(day.weekday() for day in days))


def days_of(function: str, name: str, columns: Columns) -> list[date]:
    """Return all days that a column of dates may hold."""
    column = columns[name]
    first = column.lower
    if column.kind != "date" or not isinstance(first, date):
        raise InvalidArgument(
            f"the formula has {function}({name}), but {name} is a {column.kind}; expected a column with kind='date'"
        )
    return [first + timedelta(days=day) for day in range(int(column.bounds[1]) + 1)]
