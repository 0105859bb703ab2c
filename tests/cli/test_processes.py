"""Terminals, signals and limits of the system, which only a real process shows."""

import json
import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "tikhonet.cli"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_on_a_terminal_saves_the_last_finished_epoch_and_exits_with_130(tmp_path):
    import pty

    words = "fit --data digits --hidden 20 --max-iter 100000 --no-early-stopping --json --output m"
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, *words.split()],
        cwd=tmp_path,
        env=ENVIRONMENT | {"TERM": "xterm"},
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    seen = b""
    while b"loss" not in seen:
        seen += os.read(ours, 4096)
    child.send_signal(2)
    try:
        while os.read(ours, 4096):
            pass
    except OSError:
        pass  # how Linux says that the other side of a terminal is closed
    os.close(ours)
    out, _ = child.communicate()
    assert child.returncode == 130
    assert json.loads(out)["status"] == "INTERRUPTED"  # and the bar was on stderr
    from tikhonet.estimators import BCDClassifier

    assert 0 < BCDClassifier.load(tmp_path / "m").n_iter_ < 100_000


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_limit_of_the_system_on_files_is_one_line_and_leaves_the_old_file(tmp_path):
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    (tmp_path / "m").write_bytes(b"old")
    words = ["fit", "--data", "digits", "--hidden", "10", "--max-iter", "2", "--output", "m"]
    ran = subprocess.run(
        [*COMMAND, *words], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("tikhonet: cannot write m: File too large; make room")
    assert ran.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["m"]
    assert (tmp_path / "m").read_bytes() == b"old"
