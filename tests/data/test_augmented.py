"""Images that are moved and mirrored at random, and the trainer on a loader of them."""

import pytest
import torch
from torch.utils.data import DataLoader

from tests.trainer.test_images import NETWORK, error, stripes
from tikhonet import Problem, Stochastic
from tikhonet.data import AugmentedImages
from tikhonet.network.errors import ArgumentError


def windows(image, padding, flip, fill):
    """All images that may come out, one by one."""
    padded = torch.nn.functional.pad(image, (padding,) * 4, value=fill)
    places = range(2 * padding + 1)
    moved = [padded[:, i : i + image.shape[1], j : j + image.shape[2]] for i in places for j in places]
    return moved + [part.flip(2) for part in moved if flip]


@pytest.mark.parametrize(("padding", "flip"), [(0, False), (0, True), (2, False), (1, True)])
def test_what_comes_out_is_each_window_of_the_padded_image_and_no_other(padding, flip):
    images = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    data = AugmentedImages(images, torch.tensor([7, 8]), padding, flip, fill=-1.0)
    torch.manual_seed(0)
    for k, target in enumerate((7, 8)):
        allowed = {tuple(part.flatten().tolist()) for part in windows(images[k], padding, flip, -1.0)}
        drawn = data.__getitems__([k] * 400)
        assert {tuple(image.flatten().tolist()) for image, _ in drawn} == allowed
        assert {int(label) for _, label in drawn} == {target}
    assert data[1][0].shape == (3, 4, 5)


def test_the_trainer_learns_from_a_loader_of_them():
    (X, Y), (X_test, Y_test) = stripes(400), stripes(300, seed=1)
    torch.manual_seed(0)
    loader = DataLoader(AugmentedImages(X.view(-1, 1, 6, 6), Y, padding=1), batch_size=40, shuffle=True)
    training = Stochastic(epochs=15).run(Problem(NETWORK, lift="fenchel", gamma=1.0), loader)
    assert error(training, X_test, Y_test) < 0.15


def test_flat_rows_are_refused():
    with pytest.raises(ArgumentError, match=r"images must have the shape \(n, channels, height, width\)"):
        AugmentedImages(torch.ones(4, 9), torch.ones(4))
