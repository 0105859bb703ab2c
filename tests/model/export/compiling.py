"""Exported C through a compiler, as a program that reads rows and writes scores.

Skipped where there is no gcc, unless CI_COMPILER is set: then its absence is an error.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2")
SANITIZED = (*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

needs_gcc = pytest.mark.skipif(
    not shutil.which("gcc") and not os.environ.get("CI_COMPILER"), reason="needs gcc (Debian: apt-get install gcc)"
)

MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include "{name}.h"

int main(void)
{{
    static float x[{upper}_INPUTS], scores[{upper}_OUTPUTS];
    while (fread(x, sizeof x, 1, stdin) == 1) {{
        int32_t best = {call};
        fwrite(&best, sizeof best, 1, stdout);
        fwrite(scores, sizeof scores, 1, stdout);
    }}
    return 0;
}}
"""


def run_c(made, forward, X, folder, compiler=("gcc",), flags=SANITIZED, emulator=()):
    """The scores, and the classes that the C function returned (zeros for numbers)."""
    _, source = made.save(folder)
    call = f"{made.name}_predict(x, scores)"
    text = MAIN.format(name=made.name, upper=made.name.upper(), call=call if forward.classes else f"({call}, 0)")
    main, program = Path(folder, "main.c"), Path(folder, "program")
    main.write_text(text)
    subprocess.run([*compiler, *flags, "-o", program, source, main, "-lm"], check=True)
    data = np.ascontiguousarray(X, "<f4").tobytes()
    out = subprocess.run([*emulator, program], input=data, capture_output=True, check=True).stdout
    found = np.frombuffer(out, np.dtype([("best", "<i4"), ("scores", "<f4", (forward.outputs,))]))
    assert len(found) == len(X)
    return found["scores"], found["best"]
