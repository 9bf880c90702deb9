import numpy as np
import pytest
from toy import TOYS, Book, GaussianModel

from dpmcmc.enclave.data import PrivateData


@pytest.fixture
def book():
    return Book()


@pytest.fixture(scope="session")
def table():
    return np.random.default_rng(7).normal(size=(50, 3)).astype(np.float32)


@pytest.fixture
def data(table, book):
    return PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS)


@pytest.fixture
def model():
    return GaussianModel()
