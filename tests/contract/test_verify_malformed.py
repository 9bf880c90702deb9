"""Certificates that no library wrote: whatever is in the file is refused in one printable line, and soon."""

import json
import math
import time

import pytest

from dpmcmc.accounting import Approximation, Certificate, Gaussian
from dpmcmc.accounting.certificate import digest
from dpmcmc.errors import DpmcmcError
from dpmcmc.verification import verify

PLAIN = json.loads(
    Certificate(Gaussian(9.0) * 3 + Gaussian(20.0) * 8 + Approximation(2e-24), "replace_one", 1e-6).to_json()
)
GOOD = json.dumps(PLAIN)
SUM = {"kind": "Gaussian", "noise_multiplier": 9.0}


def alt(**stated):
    """Return the certificate with other entries, and with the digest of them."""
    changed = PLAIN | stated
    return json.dumps(changed | {"sha256": digest(changed)})


def of(kind, **fields):
    return alt(event={"kind": kind, **fields})


LONG = "9" * 5000
MALFORMED = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "number": "3",
    "text": '"x"',
    "true": "true",
    "nan": "NaN",
    "deep list": "[" * 200000,
    "deep closed": "[" * 100000 + "]" * 100000,
    "deep in event": GOOD.replace('"event": {', '"event": {"x": ' + "[" * 50000 + "]" * 50000 + ", ", 1),
    "deep objects": '{"a":' * 100000 + "1" + "}" * 100000,
    "huge int in delta": GOOD.replace('"delta": 1e-06', '"delta": ' + LONG),
    "huge int eps": GOOD.replace('"epsilon": ' + repr(PLAIN["epsilon"]), '"epsilon": ' + LONG),
    "huge int count": GOOD.replace('"count": 3', '"count": ' + LONG),
    "count 2^63": GOOD.replace('"count": 3', '"count": 9223372036854775808'),
    "neg count": GOOD.replace('"count": 3', '"count": -3'),
    "float count": GOOD.replace('"count": 3', '"count": 3.0'),
    "inf noise": GOOD.replace('"noise_multiplier": 9.0', '"noise_multiplier": Infinity'),
    "nan noise": GOOD.replace('"noise_multiplier": 9.0', '"noise_multiplier": NaN'),
    "neg noise": GOOD.replace('"noise_multiplier": 9.0', '"noise_multiplier": -9.0'),
    "text noise": GOOD.replace('"noise_multiplier": 9.0', '"noise_multiplier": "9.0"'),
    "1e999": GOOD.replace('"noise_multiplier": 9.0', '"noise_multiplier": 1e999'),
    "nan delta": alt(delta=math.nan),
    "inf eps": alt(epsilon=math.inf),
    "nan eps": alt(epsilon=math.nan),
    "null eps": alt(epsilon=None),
    "bool eps": alt(epsilon=True),
    "text infinity": alt(epsilon="infinity"),
    "text Infinity": alt(epsilon="Infinity"),
    "delta 0": alt(delta=0),
    "delta 1": alt(delta=1),
    "delta text": alt(delta="1e-6"),
    "delta list": alt(delta=[1e-6]),
    "delta smaller": alt(delta=1e-7),
    "delta int": alt(delta=0.0),
    "adjacency swapped": alt(adjacency="add_or_remove_one"),
    "adjacency lookalike": alt(adjacency="replace_\u043ene"),
    "adjacency null": alt(adjacency=None),
    "adjacency list": alt(adjacency=[]),
    "unit lookalike": alt(unit="rec\u043erd"),
    "unit rtl": alt(unit="record\u202e"),
    "unit zero width": alt(unit="rec\u200bord"),
    "unit empty": alt(unit=""),
    "unit long": alt(unit="x" * 100000),
    "unit num": alt(unit=3),
    "version older": alt(library_version="0.2.9"),
    "version fullwidth": alt(library_version="\uff10.3.0"),
    "version null": alt(library_version=None),
    "version tail": alt(library_version="0.3.0\n"),
    "version words": alt(library_version="0.3.0 (audited by NIST)"),
    "format 0": alt(format=0),
    "format neg": alt(format=-1),
    "format 3.0": alt(format=3.0),
    "format true": alt(format=True),
    "format LONG": alt(format=10**400),
    "kind lookalike": GOOD.replace('"Gaussian"', '"G\u0430ussian"'),
    "kind list": GOOD.replace('"kind": "Gaussian"', '"kind": ["Gaussian"]'),
    "kind obj": GOOD.replace('"kind": "Gaussian"', '"kind": {}'),
    "kind Event": GOOD.replace('"kind": "Gaussian"', '"kind": "Event"'),
    "event null": alt(event=None),
    "event list": alt(event=[PLAIN["event"]]),
    "event text": alt(event="Gaussian"),
    "event {}": alt(event={}),
    "parts dict": of("Composed", parts={}),
    "parts empty": alt(event={"kind": "Composed", "parts": []}),
    "parts null": alt(event={"kind": "Composed", "parts": [None]}),
    "parts extra": of("Composed", parts=[{"event": SUM, "count": 1, "x": 1}]),
    "selected none": of("Selected", candidates=[], halting=0.5, shape=1.0),
    "selected text": of("Selected", candidates="abc", halting=0.5, shape=1.0),
    "selected num": of("Selected", candidates=[1], halting=0.5, shape=1.0),
    "selected in selected": of(
        "Selected",
        candidates=[
            {
                "kind": "Selected",
                "candidates": [SUM],
                "halting": 0.5,
                "shape": 1.0,
            }
        ],
        halting=0.5,
        shape=1.0,
    ),
    "parallel none": of("Parallel", partitions=[], cells=[]),
    "parallel text": of("Parallel", partitions="x", cells="y"),
    "parallel nulls": of("Parallel", partitions=[None], cells=[None]),
    "parallel cuts nan": of("Parallel", partitions=[{"cuts": [0, math.nan], "places": ""}], cells=[]),
    "parallel places look": of("Parallel", partitions=[{"cuts": [0, 5], "places": "\uff10" * 32}], cells=[]),
    "parallel numbers text": of(
        "Parallel",
        partitions=[{"cuts": [0, 5, 9], "places": ""}],
        cells=[{"numbers": "01", "event": SUM}],
    ),
    "parallel numbers huge": of(
        "Parallel",
        partitions=[{"cuts": [0, 5, 9], "places": ""}],
        cells=[{"numbers": [10**30], "event": SUM}],
    ),
    "parallel numbers twice": of(
        "Parallel",
        partitions=[{"cuts": [0, 5, 9], "places": ""}],
        cells=[{"numbers": [0, 0], "event": SUM}],
    ),
    "curve null": alt(curve=None),
    "curve []": alt(curve=[]),
    "curve num": alt(curve=[1]),
    "curve nan": alt(curve=[{"epsilon": math.nan, "delta": 0}] * 13),
    "assumptions text": alt(assumptions="none"),
    "assumptions null": alt(assumptions=None),
    "assumptions ctrl": alt(assumptions=["\x1b[2J"]),
    "assumptions num": alt(assumptions=[1]),
    "assumptions dup": alt(assumptions=["a"]),
    "paths dict": alt(paths={}),
    "device list": alt(device=["cpu"]),
    "device nul": alt(device="cpu\x00"),
    "device bom": alt(device="\ufeffcpu"),
    "statement rounded down": alt(statement=PLAIN["statement"].replace(PLAIN["statement"][1:6], "0.999", 1)),
    "statement null": alt(statement=None),
    "statement nbsp": alt(statement=PLAIN["statement"].replace(" ", "\u00a0", 1)),
    "holds_if null": alt(holds_if=None),
    "sha upper": json.dumps(PLAIN | {"sha256": PLAIN["sha256"].upper()}),
    "sha null": json.dumps(PLAIN | {"sha256": None}),
    "sha list": json.dumps(PLAIN | {"sha256": []}),
    "two epsilons": GOOD[:-1] + ', "epsilon": 0.1}',
    "two docs": GOOD + GOOD,
    "bom": "\ufeff" + GOOD,
    "trailing nul": GOOD + "\x00",
    "utf16": GOOD.encode("utf-16").decode("latin1"),
    "surrogate key": alt(**{"\ud800": 1}),
    "lookalike key": alt(еpsilon=0.1),
    "rate neg": of("PoissonGaussian", rate=-0.1, noise_over_clip=1.0, adjacency="replace_one"),
    "rate denormal": of("PoissonGaussian", rate=5e-324, noise_over_clip=1.0, adjacency="replace_one"),
    "rate 1": of("PoissonGaussian", rate=1.0, noise_over_clip=1.0, adjacency="replace_one"),
    "adj in event null": of("PoissonGaussian", rate=0.1, noise_over_clip=1.0, adjacency=None),
    "batch > population": of("FixedBatchGaussian", batch_size=10, population=9, noise_multiplier=1.0),
    "kappa nan": of("BarkerTest", batch_size=10, population=90, variance=2.0, clip_fraction=math.nan),
    "tv 1": of("Approximation", total_variation=1.0),
    "ratio 1e300": of("RatioApproximation", log_ratio=1e99),
}


def test_the_unaltered_one_passes():
    assert verify(GOOD).figures


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused_in_one_line(name):
    start = time.process_time()
    with pytest.raises(DpmcmcError) as refused:
        verify(MALFORMED[name])
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500
    assert time.process_time() - start < 2
