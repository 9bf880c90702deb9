"""Names of datasets that look alike: a budget is granted once, and not again to a name that reads the same.

Two names resemble each other if they are the same text after compatibility forms, case, accents, spaces and
punctuation are taken away and letters that look alike are made one. Between two digits a sign is kept, of whatever
kind: 1.1 and 1-1 are alike, 1.1 and 11 are not. This stops mistakes and most disguises, and is
no more than that: Unicode has more letters that look alike than are listed here. That the same people are in the
table of another, honestly different name is nothing that a ledger can see.
"""

import re
import unicodedata
from collections.abc import Iterable

# Letters of other alphabets, and Latin ones with a stroke, with what they look like. Capitals are there where they look
# like another letter than their small ones do.
_SIGNS = {
    # Cyrillic
    **dict(zip("авекмнорстухѕіјԁԛԝһӏѵгпьзчб", "abekmhopctyxsijdqwhlvrnb346", strict=True)),
    **dict(zip("АВЕКМНОРСТУХЅІЈԌԚԜҺӀѴЗЧБ", "abekmhopctyxsijgqwhlv346", strict=True)),
    **dict(zip("ѳѡօա", "owow", strict=True)),  # and Armenian
    # Greek
    **dict(zip("αβγεζηικνοπρςστυχω", "abyeznikvonpsotuxw", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abezhikmnoptyx", strict=True)),
    # Latin
    **dict(zip("ıłøđħŧɑɡɩɪʟɴʀʏþðƅƖǀ", "ilodhtagiilnrypdbll", strict=True)),
    **dict(zip("ŁØĐĦŦÞÐ", "lodhtpd", strict=True)),
    "æ": "ae",
    "Æ": "ae",
    "œ": "oe",
    "Œ": "oe",
    # digits and signs
    "0": "o",
    "1": "l",
    "i": "l",
    "I": "l",
    "|": "l",
    "¦": "l",
}
_BARS = str.maketrans(dict.fromkeys("\u2223\u05c0\u0964", "|"))
"""Signs of other writings that are a bar; some count as punctuation, which is taken away."""

_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]")


_TOGETHER = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"}
"""Scripts that are written together, and with Latin letters."""

_IMITATING = {"LISU", "CHEROKEE", "COPTIC", "OLD", "GOTHIC", "DESERET"}
"""Scripts of which whole words look Latin: a name may not be written in them. `OLD`: Old Italic and others."""

_PAIRS = {"rn": "m", "vv": "w"}
"""Letters that look like one."""

_SMALL_CAPITAL = re.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])$")


def is_disguised(name: str) -> bool:
    """Say whether a name mixes alphabets, is in one that imitates Latin, or has signs that are in no word."""
    name = unicodedata.normalize("NFKC", name)
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in name if letter.isalpha()} - _TOGETHER
    signs = (unicodedata.category(letter) for letter in name)
    return (
        len(scripts) > 1
        or not scripts.isdisjoint(_IMITATING)
        or any(category[0] in "CS" and category != "Sm" for category in signs)
    )


def find_alike(name: str, others: Iterable[str]) -> str | None:
    """Return the first of the other names that `name` resembles without being the same."""
    own = _shapes(name)
    return next((other for other in others if other != name and own & _shapes(other)), None)


def _shapes(name: str) -> frozenset[str]:
    """Return what a name looks like, as it is written and in small letters: either may be what it is taken for."""
    plain = unicodedata.normalize("NFKC", name)
    return frozenset((_shape(plain), _shape(plain.casefold())))


def _shape(name: str) -> str:
    bare = _INVISIBLE.sub("", unicodedata.normalize("NFKD", name)).translate(_BARS)
    bare = "".join(str(unicodedata.digit(letter, letter)) for letter in bare)  # of every script
    letters = [_letter(letter) for letter in _joined(bare) if not unicodedata.combining(letter)]
    folded = "".join(letters).casefold()
    shape = "".join(_SIGNS.get(letter, letter) for letter in folded) or name
    for pair, letter in _PAIRS.items():
        shape = shape.replace(pair, letter)
    return shape


def _letter(letter: str) -> str:
    capital = _SMALL_CAPITAL.match(unicodedata.name(letter, ""))
    return capital[1].lower() if capital else _SIGNS.get(letter, letter)


def _joined(name: str) -> str:
    """Take spaces and punctuation away, but leave one sign between two digits."""
    parts = "".join(" " if unicodedata.category(letter)[0] in "ZP" else letter for letter in name).split()
    joined = ""
    for part in parts:
        joined += f"-{part}" if joined[-1:].isdigit() and part[0].isdigit() else part
    return joined
