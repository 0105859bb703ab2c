"""Settings of the whole suite: one thread a worker, repeatable examples, no deadline."""

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, max_examples=25, print_blob=True)
hypothesis.settings.load_profile("suite")
