"""Programs of tests in a process of their own, and several ranks as its forked copies, which import torch once."""

import os
import socket
import subprocess
import sys
import traceback

WHERE = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def printed(module, *words):
    """The lines that `python -m module words` prints."""
    command = [sys.executable, "-m", module, *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, f"the process died with {ran.returncode}: {ran.stderr[-2000:]}"
    return ran.stdout.splitlines()


def on_ranks(ranks, work):
    """The exit codes of so many processes that do `work(rank)`; one that ends well has 0."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            if ranks > 1:
                os.environ.update(zip(WHERE, ("127.0.0.1", str(port), str(ranks), str(rank)), strict=True))
            code = 1
            try:
                work(rank)
                code = 0
            except SystemExit as ended:
                code = ended.code
            except BaseException:
                traceback.print_exc()
            finally:  # a copy of this process must not go on here
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
