"""Fits on two ranks that are stopped, killed or find their files changed: `many.py` runs them."""

import json
import socket
import sys

import pytest

from tests.faults.forked import printed
from tikhonet.problem.meeting import OPTIONS, watched_connections

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
STATE_KEPT = "the state of the fit is kept in states, and the same command goes on from there"


@pytest.fixture(scope="module")
def found():
    return json.loads(printed("tests.faults.many")[0])


def said(case):
    """What the ranks said, each line once."""
    return [line for rank in case["lines"] for line in rank]


@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
def test_a_signal_to_one_rank_stops_all_which_keep_one_state_and_go_on_to_the_same_bits(found, solver):
    for name, code in (("sigterm", 143), ("sigint", 130)):
        stopped = found[f"{solver}: {name}"]
        assert stopped["codes"] == [code, code]
        assert said(stopped).count(f"tikhonet: stopped; {STATE_KEPT}") == 1
    assert found[f"{solver}: damaged"]["codes"] == [0, 0]
    assert found[f"{solver}: same"]


@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
def test_a_damaged_state_of_two_ranks_is_left_aside_for_the_one_before_and_it_is_said_once(found, solver):
    lines = [line for line in said(found[f"{solver}: damaged"]) if "the one before it is used" in line]
    assert len(lines) == 1
    assert "is damaged: its SHA-256 is not the one it was saved with" in lines[0]


@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
def test_a_fit_of_two_ranks_goes_on_with_four_and_then_in_one_process(found, solver):
    """Full-batch solvers end where they would have; the trainer sees its batches in another order from there on."""
    assert found[f"{solver}: four ranks"]["codes"] == [143] * 4
    last = found[f"{solver}: one process"]
    assert last["codes"] == [0]
    assert not [line for line in said(last) if "warning" in line]
    assert any(line.split() == ["iterations", "6"] for line in said(last))
    assert solver == "stochastic" or found["proximal: difference"] < 1e-3


def test_a_full_disk_is_said_by_the_rank_that_writes(found):
    case = found["full disk"]
    assert case["codes"] == [143, 143]
    assert any("no checkpoint could be written to states: File too large" in line for line in case["lines"][0])
    assert "stopped; the state of the fit could not be kept in states; make room there" in case["lines"][0][-1]
    assert not case["lines"][1]


def test_a_killed_rank_ends_the_other_within_ten_seconds_with_one_line(found):
    case = found["killed"]
    assert case["codes"] == [1, -9]
    assert case["seconds"] < 10  # nothing waits for a timeout, which would be half an hour
    assert len(case["lines"][0]) == 1
    assert "rank 0 of 2 lost another rank, which ended or did not answer" in case["lines"][0][0]


def test_a_changed_file_is_refused_on_all_ranks(found):
    case = found["changed"]
    assert case["codes"] == [1, 1]
    for rank in case["lines"]:
        assert "X, y and sample_weight must be those that the checkpoint was made of" in rank[-1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not list the sockets")
def test_connections_that_ranks_make_ask_whether_the_other_machine_is_there():
    with socket.socket() as before, socket.create_server(("127.0.0.1", 0)) as server:
        with watched_connections():
            one = socket.create_connection(server.getsockname())
            other = server.accept()[0]
        for connection in (one, other):
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name, value in OPTIONS.items():
                assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
            connection.close()
        assert not before.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
