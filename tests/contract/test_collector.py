"""Python's collector of cycles rests while a program is made, and only then."""

import gc

import pytest

from dpmcmc.collector import not_collecting


@pytest.fixture(autouse=True)
def as_it_was():
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("was_on", [True, False])
def test_it_rests_and_then_is_as_it_was(was_on):
    (gc.enable if was_on else gc.disable)()
    with not_collecting():
        assert not gc.isenabled()
        with not_collecting():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is was_on


def test_it_goes_on_after_an_error():
    gc.enable()
    with pytest.raises(KeyError), not_collecting():
        raise KeyError
    assert gc.isenabled()
