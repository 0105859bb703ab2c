"""
C for a device, with its self-test
==================================

A classifier becomes C99 without any dependency. The program that a firmware would hold is compiled here, tests
itself, and classifies; then we look at what smaller networks cost in accuracy.
"""

import subprocess
import tempfile
from pathlib import Path
from shutil import which

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet import BCDClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = BCDClassifier((64, 64), sparsity=0.1, random_state=0).fit(X, y)

MAIN = """
#include <stdio.h>
#include "digits.h"
int digits_self_test(void);

int main(void)
{
    static const int labels[] = DIGITS_LABELS;
    float x[DIGITS_INPUTS], scores[DIGITS_OUTPUTS];
    int i = 0;
    printf("self-test: %d\\n", digits_self_test());
    while (scanf("%f", &x[i]) == 1)
        if (++i == DIGITS_INPUTS) {
            printf("%d ", labels[digits_predict(x, scores)]);
            i = 0;
        }
    return 0;
}
"""

# %%
# With `-DDIGITS_SELF_TEST` the source has a function that is 1 if two rows give the scores that they gave when it was
# written: call it once when the firmware starts.

if which("gcc"):
    with tempfile.TemporaryDirectory() as folder:
        model.to_c("digits").save(folder)
        (Path(folder) / "main.c").write_text(MAIN)
        compiler = ["gcc", "-std=c99", "-O2", "-Wall", "-DDIGITS_SELF_TEST", "digits.c", "main.c", "-o", "digits"]
        subprocess.run(compiler, cwd=folder, check=True)
        typed = "\n".join(" ".join(map(str, row)) for row in X_test[:200])
        ran = subprocess.run([Path(folder) / "digits"], input=typed, capture_output=True, text=True, check=True)
    first, answers = ran.stdout.split("\n", 1)
    print(first)
    print(f"labels like Python's: {np.mean(np.array(answers.split(), int) == model.predict(X_test[:200])):.0%}")

# %%
# Flash holds the constants of the network, RAM what one prediction needs. Each line is one way of making the network
# smaller; weights of 8 bits take less than half of those of 32.

figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
sizes = ((16, 0.2), (32, 0.2), (64, 0.1), (128, 0.3))
fits = {size: BCDClassifier((size[0],) * 2, sparsity=size[1], random_state=0).fit(X, y) for size in sizes}
for int8, colour in ((False, "#1f6fb2"), (True, "#00805c")):
    points = []
    for (width, share), smaller in fits.items():
        made = smaller.to_c("digits", int8=int8)
        points.append((made.flash / 1024, 100 * smaller.score(X_test, y_test), f"{width} + {width}, {share:.0%}"))
    flash, accuracies, _ = zip(*sorted(points), strict=True)
    axes.plot(flash, accuracies, "o-", color=colour, label="int8 weights" if int8 else "float32 weights")
    print(f"int8={int8}: test accuracy {accuracies[-1]:.1f}% in {flash[-1]:.1f} KB of flash")
for size, accuracy, name in sorted(points):
    axes.annotate(name, (size, accuracy), textcoords="offset points", xytext=(8, -12), fontsize=8)
axes.set(xscale="log", xlabel="flash, KB", ylabel="test accuracy of the float32 network, percent")
axes.margins(0.15)
axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
axes.legend(loc="lower right")
