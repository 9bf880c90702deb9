"""Draws that were charged are returned even if an earlier posterior cannot be combined with them."""

import warnings

import pytest

from dpmcmc.fitting.earlier import with_earlier


class Posterior:
    def combine(self, _):
        raise ValueError("singular")


def test_a_failure_to_combine_raises_nothing_even_where_warnings_are_errors() -> None:
    """It warned as any code does, and so raised there, after payment."""
    own = Posterior()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):  # the control: they are errors here
            warnings.warn("another", stacklevel=1)
        assert with_earlier(own, own) is own
    assert ["could not be combined" in str(one.message) for one in shown] == [True]


def test_it_is_said() -> None:
    own = Posterior()
    with pytest.warns(RuntimeWarning, match="could not be combined with this one, which is returned alone: singular"):
        assert with_earlier(own, own) is own
