"""One tiny real run and its report, shared by the tests of a worker."""

import pytest

from tests.paper.tiny import HASHING, MNIST, TINY, TINY_HASHING, few_digits, small_database
from tikhonet.paper.page import write_report
from tikhonet.paper.runner import run


@pytest.fixture(scope="session")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    run(MNIST, few_digits(), TINY, folder, trials=(0, 1))
    return folder


@pytest.fixture(scope="session")
def report(output):
    return write_report(output, command="tikhonet reproduce mnist --quick")


@pytest.fixture(scope="session")
def hashing_output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hashing")
    run(HASHING, small_database(), TINY_HASHING, folder, trials=(0, 1))
    return folder


@pytest.fixture(scope="session")
def hashing_report(hashing_output):
    return write_report(hashing_output, command="tikhonet reproduce hashing --quick")
