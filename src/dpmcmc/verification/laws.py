"""Laws of privacy losses in whole numbers: masses on a grid, and how far they are from the true ones all together.

A mass is counted in units of 2^-bits. Products of polynomials in whole numbers are exact; what is cut off afterwards,
below a unit or at the ends, is added up. So a law is a ball too: its midpoint is the masses, its radius is `off`, and
distances are sums of absolute differences.
"""

from dataclasses import dataclass, field

from flint import arb, fmpz, fmpz_poly

from dpmcmc.verification.balls import Ball, ball

_NEAR = 4
"""Of how many losses beside epsilon each is asked whether it is larger."""


@dataclass(frozen=True)
class Law:
    """Masses at whole multiples of an interval from `first` on, in units of 2^-bits.

    Attributes:
        first: where the first mass stands.
        masses: the masses.
        off: how many units they are from the true ones, all together, at most.
        infinity: the mass of an infinite loss.
        bits: how small a unit is.
    """

    first: int
    masses: fmpz_poly
    off: int
    infinity: Ball
    bits: int
    _sums: list[list[Ball]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, first: int, masses: list[fmpz], off: int, infinity: Ball, shift: int, bits: int, spare: int) -> "Law":
        """Round masses that are in units of 2^-(bits + shift), and cut so many units off at the ends at most."""
        start, kept, left = _trimmed([mass >> shift for mass in masses], spare)
        off += int(sum(masses, start=fmpz(0))) - (left << shift)
        return cls(first + start, fmpz_poly(kept), -(-off >> shift), infinity, bits)

    @classmethod
    def unknown(cls, bits: int) -> "Law":
        """Return a law of which nothing is known."""
        return cls(0, fmpz_poly([0]), 2 << bits, ball(0).union(ball(1)), bits)

    def times(self, other: "Law", spare: int) -> "Law":
        """Return the distribution of the sum of two independent losses, with at most `spare` units cut off."""
        infinity = self.infinity + other.infinity - self.infinity * other.infinity
        product = self.masses * other.masses  # in units of 2^-(2 bits)
        mine, its = int(self.masses(1)), int(other.masses(1))
        start, kept, left = _trimmed([mass >> self.bits for mass in product.coeffs()], spare)
        off = self.off * (its + other.off) + mine * other.off + mine * its - (left << self.bits)
        return Law(self.first + other.first + start, fmpz_poly(kept), -(-off >> self.bits), infinity, self.bits)

    def delta(self, epsilon: Ball, interval: Ball) -> Ball:
        """Return the mass of an infinite loss plus E[(1 - e^(epsilon - loss))_+]: near epsilon one by one."""
        length = len(self.masses)
        start = min(max(int(float((epsilon / interval).floor().mid())) - 1 - self.first, 0), length)
        rest = min(start + _NEAR, length)
        units = ball(0)
        for place in range(start, rest):
            shrink = (epsilon - (self.first + place) * interval).exp()
            units += (1 - shrink).max(ball(0)) * self.masses[place]
        beyond, weighted = self._sums_from(interval)
        units += beyond[rest] - epsilon.exp() * weighted[rest] + self.off * arb(0, 1)
        return self.infinity + units / arb(2) ** self.bits

    def _sums_from(self, interval: Ball) -> tuple[list[Ball], list[Ball]]:
        """Return, for each place, the sums from it on of the masses, and of the masses times e^-loss."""
        if not self._sums:
            beyond, weighted = [ball(0)], [ball(0)]
            falling, step = (-interval * (self.first + len(self.masses))).exp(), interval.exp()
            for mass in reversed(self.masses.coeffs()):
                falling *= step
                beyond.append(beyond[-1] + mass)
                weighted.append(weighted[-1] + falling * mass)
            self._sums[:] = beyond[::-1], weighted[::-1]
        return self._sums[0], self._sums[1]


def product(steps: list[tuple[Law, int]], spare: int) -> Law:
    """Return the distribution of the sum of all losses, each taken its number of times: all powers by the same squares.

    Steps of one count are multiplied once; then, from the highest bit of the counts down, the product is squared, and
    multiplied by the steps whose counts have the bit. Of the units that may be cut off each product gets its share,
    which is smaller where its result is squared more often.
    """
    by_count: dict[int, list[Law]] = {}
    for law, times in steps:
        by_count.setdefault(times, []).append(law)
    levels = max(by_count).bit_length()
    share = spare // (len(steps) + levels * (len(by_count) + 1))
    joined = {times: _joined(laws, share // times) for times, laws in by_count.items()}
    result: Law | None = None
    for bit in reversed(range(levels)):
        result = None if result is None else result.times(result, share >> bit)
        if chosen := [law for times, law in joined.items() if times >> bit & 1]:
            law = _joined(chosen, share >> bit)
            result = law if result is None else result.times(law, share >> bit)
    assert result is not None  # noqa: S101  # for no count is zero
    return result


def _joined(laws: list[Law], spare: int) -> Law:
    """Return the law of the sum of one loss of each law, those with the fewest masses first."""
    while len(laws) > 1:
        laws = sorted(laws, key=lambda law: len(law.masses))
        pairs = [laws[place].times(laws[place + 1], spare) for place in range(0, len(laws) - 1, 2)]
        laws = pairs + laws[2 * len(pairs) :]
    return laws[0]


def _trimmed(masses: list[fmpz], spare: int) -> tuple[int, list[fmpz], int]:
    """Cut off at both ends what is at most `spare` units together.

    Returns how many masses were cut at the lower end, those that are left, and their sum.
    """
    start, stop, room = 0, len(masses), fmpz(spare // 2)
    while start < stop and masses[start] <= room:
        room -= masses[start]
        start += 1
    room = fmpz(spare // 2)
    while start < stop and masses[stop - 1] <= room:
        room -= masses[stop - 1]
        stop -= 1
    kept = masses[start:stop]
    return start, kept, int(sum(kept, start=fmpz(0)))
