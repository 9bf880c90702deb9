"""How uncertain a slope is: in every direction, in any coordinates, and after averages with noise that is known."""

import numpy as np
import pytest
from scipy.stats import chi2

from dpmcmc.fitting.strategies.weighted_scores.doubts import averaged, most_noise, or_more, shrunk, widened
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten

SIZE, NUMBER = 5, 4000


def noise(rng: np.random.Generator, root: np.ndarray) -> np.ndarray:
    """A random symmetric matrix B Z B^T, entries of Z off the diagonal a root of two smaller."""
    lower = np.tril(rng.standard_normal((len(root), len(root))))
    return root @ ((lower + np.tril(lower, -1).T) * np.where(np.eye(len(root)) > 0, 1.0, np.sqrt(0.5))) @ root.T


def is_spread(values: np.ndarray, sd: float) -> bool:
    """Whether values of mean zero have a standard deviation; told wrongly once in 100,000."""
    total = float(np.sum(values**2)) / sd**2
    return bool(chi2.ppf(5e-6, len(values)) < total < chi2.isf(5e-6, len(values)))


@pytest.mark.parametrize("turn", [False, True])
def test_a_doubt_is_that_of_every_direction_in_all_coordinates(turn: bool) -> None:
    rng = np.random.default_rng(1)
    root, direction = rng.standard_normal((SIZE, SIZE)), rng.standard_normal(SIZE)
    turned = rng.standard_normal((SIZE, SIZE)) if turn else np.eye(SIZE)
    doubt = turned.T @ root @ root.T @ turned
    found = np.array([direction @ turned.T @ noise(rng, root) @ turned @ direction for _ in range(NUMBER)])
    assert is_spread(found, direction @ doubt @ direction)
    assert not is_spread(1.15 * found, direction @ doubt @ direction)


def test_an_average_is_as_uncertain_as_it_says_where_one_direction_is_far_less_known() -> None:
    rng = np.random.default_rng(2)
    basis, _ = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))
    sds, told = np.array([4.0, 0.5, 0.3, 0.2, 0.1]), 0.6
    doubt = (basis * sds) @ basis.T
    errors = []
    for _ in range(NUMBER):
        truth = noise(rng, basis * np.sqrt(sds))
        slope, left = averaged(np.zeros_like(truth), doubt, truth + told * noise(rng, np.eye(SIZE)), told)
        errors.append(np.diag(basis.T @ (slope - truth) @ basis) / np.diag(basis.T @ left @ basis))
    assert all(is_spread(each, 1.0) for each in np.array(errors).T)


def test_what_may_have_changed_is_less_certain_in_all_directions() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((SIZE, SIZE))
    doubt = root @ root.T
    before, after = np.linalg.eigvalsh(doubt), np.linalg.eigvalsh(widened(doubt, 0.5))
    np.testing.assert_allclose(after, np.hypot(before, 0.5), rtol=1e-10)


def test_what_a_release_says_otherwise_of_a_parameter_is_doubted_and_nothing_else() -> None:
    rng = np.random.default_rng(4)
    parameters = np.linalg.cholesky(np.cov(rng.standard_normal((SIZE, 20)))).T
    known, doubt, noise_sd = np.eye(SIZE), 0.08 * np.eye(SIZE), 0.05
    direction = parameters[:, 1] / np.linalg.norm(parameters[:, 1])
    other = np.linalg.svd(np.delete(parameters, 1, axis=1).T @ (np.eye(SIZE) - np.outer(direction, direction)))[2][0]
    told = known + 0.4 * np.outer(direction, direction)
    slope, _ = averaged(known, or_more(known, doubt, told, noise_sd, parameters), told, noise_sd)
    as_before, _ = averaged(known, doubt, told, noise_sd)
    assert direction @ (told - slope) @ direction < 0.03 < 0.1 < direction @ (told - as_before) @ direction
    np.testing.assert_allclose(or_more(known, doubt, known + 0.15 * np.eye(SIZE), noise_sd, parameters), doubt)
    assert other @ or_more(known, doubt, told, noise_sd, np.c_[direction]) @ other == pytest.approx(0.08)


def test_a_matrix_lost_in_noise_is_moved_to_a_guess_that_is_right_and_says_how_far_it_is_off() -> None:
    rng, size, sd = np.random.default_rng(5), 60, 0.08
    guess = np.diag(np.linspace(0.5, 2.0, size))
    truth = guess + 0.01 * noise(rng, np.eye(size))
    found, left = shrunk(truth + sd * noise(rng, np.eye(size)), sd * np.eye(size), guess, 0.0)
    off = np.diag(found - truth) / np.diag(left)
    assert np.trace(left) < 0.4 * sd * size
    assert np.linalg.norm(found - truth) < 0.3 * sd * np.sqrt(size * (size + 1) / 2)
    assert np.sum(off**2) < chi2.isf(1e-5, size)


def test_a_guess_that_is_wrong_everywhere_is_not_believed() -> None:
    rng, size, sd = np.random.default_rng(6), 40, 0.05
    truth = np.eye(size) + 4 * sd * noise(rng, np.eye(size))
    told = truth + sd * noise(rng, np.eye(size))
    found, left = shrunk(told, sd * np.eye(size), np.eye(size), 0.0)
    assert np.linalg.norm(found - truth) < 1.05 * np.linalg.norm(told - truth)
    assert np.sum((np.diag(found - truth) / np.diag(left)) ** 2) < chi2.isf(1e-5, size)


@pytest.mark.parametrize("size", [5, 10, 30, 100])
def test_a_direction_without_information_is_noticed_at_the_largest_noise_and_not_far_above_it(size: int) -> None:
    """Of 100 matrices: by design 0.1 % are missed, and more than seven of 100 then with a chance below 1e-13."""
    rng, way, noticed = np.random.default_rng(7), np.eye(size)[0], np.zeros(2)
    for _ in range(100):
        own = noise(rng, np.eye(size))
        for place, level in enumerate((most_noise(size), 3 * most_noise(size))):
            sd = level / np.sqrt(size) / np.sqrt(2.0)
            _, left = shrunk(np.eye(size) - np.outer(way, way) + sd * own, sd * np.eye(size), np.eye(size), 0.0)
            noticed[place] += float(way @ left @ way) > 0.6 * sd
    assert noticed[0] >= 93
    assert size < 30 or noticed[1] < 50


def test_guesses_are_the_same_in_all_coordinates() -> None:
    rng = np.random.default_rng(8)
    turned = np.eye(SIZE) + 0.3 * rng.standard_normal((SIZE, SIZE))
    known, guess, doubt = np.eye(SIZE) + 0.3 * noise(rng, np.eye(SIZE)), np.eye(SIZE), 0.2 * np.eye(SIZE)
    one = shrunk(known, doubt, guess, 0.3)
    other = shrunk(*(turned.T @ each @ turned for each in (known, doubt, guess)), 0.3)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(turned.T @ first @ turned, second, atol=1e-9)


def release_of(size: int, level: float) -> Release:
    """A slope of one in all directions, with noise of a given level."""
    sd = level / np.sqrt(size)
    slope = np.eye(size) + sd * noise(np.random.default_rng(9), np.eye(size))
    return Release(
        point=np.zeros(size),
        whitening=whiten(np.eye(size)),
        radius=1.0,
        score=np.zeros(size),
        score_variance=0.25,
        slope=slope,
        slope_sd=sd,
        variance=float(size),
        lengths=np.zeros(21),
        lengths_sd=0.1,
        roots=np.eye(size),
        usual=1.0,
    )


def test_a_release_is_moved_to_a_guess_only_where_that_is_needed_and_of_any_use() -> None:
    size = 30
    clear, noisy, lost = (release_of(size, level) for level in (0.1, 0.5, 1.5))
    guess = np.eye(size)
    assert clear.near(guess) is clear
    moved = noisy.near(guess, is_result=True)
    assert moved.noise_level < 0.6 * noisy.noise_level
    assert moved.noise_level >= 0.19, "no further than that"
    assert np.linalg.norm(moved.slope - guess) < 0.5 * np.linalg.norm(noisy.slope - guess)
    assert lost.near(guess, is_result=True) is lost
    assert lost.near(guess) is not lost, "of a step less is asked"
    for wrong in (np.full((size, size), np.nan), np.full((size, size), np.inf), np.zeros((size, size))):
        with np.errstate(all="ignore"):
            found = noisy.near(wrong)
        assert np.isfinite(found.slope).all()
