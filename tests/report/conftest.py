"""One tiny real run and its report, shared by the tests of a worker."""

import pytest

from tests.experiments.tiny import TINY, few_digits
from tikhonet.experiments import run
from tikhonet.report import write_report


@pytest.fixture(scope="session")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    run(few_digits(), TINY, folder, trials=(0, 1))
    return folder


@pytest.fixture(scope="session")
def report(output):
    return write_report(output, command="tikhonet reproduce mnist --quick")
