"""Random crops and flips of images, as a data set for torch's `DataLoader`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)
from torch.utils.data import Dataset

from tikhonet.network.arguments import Numbers
from tikhonet.network.errors import ArgumentError

PIXELS = Numbers("be at least 0", 0, low_allowed=True, integer=True)


class AugmentedImages(Dataset[tuple[Tensor, ...]]):
    """Images that come out a little different every time: moved by some pixels, and mirrored half of the time.

    What is asked for is drawn by torch's own random numbers, as torchvision's transforms do, so that the workers of a
    `DataLoader` differ; `torch.manual_seed` fixes it. A `DataLoader` asks for all images of a batch at once.

    Parameters
    ----------
    images : array of shape (n, channels, height, width)
        The images as they are.
    targets : array of n rows
        What is returned beside each image, such as encoded targets for `Stochastic.run`.
    padding : int, default=4
        The pixels that an image is moved by each way, at most.
    flip : bool, default=True
        Whether half of the images are mirrored, left for right.
    fill : float, default=0.0
        The value of pixels that come in from outside: 0 is the mean of images that were shifted to it.

    Examples
    --------
    >>> import torch
    >>> from tikhonet.data import AugmentedImages
    >>> images = AugmentedImages(torch.rand(10, 1, 8, 8), torch.eye(10), padding=1)
    >>> image, target = images[3]
    >>> image.shape, len(images)
    (torch.Size([1, 8, 8]), 10)
    """

    def __init__(self, images: Any, targets: Any, padding: int = 4, flip: bool = True, fill: float = 0.0) -> None:
        self.images, self.targets = torch.as_tensor(images), torch.as_tensor(targets)
        if self.images.ndim != 4 or len(self.targets) != len(self.images):
            raise ArgumentError(
                "images",
                "images must have the shape (n, channels, height, width), and targets n rows, got shapes "
                f"{tuple(self.images.shape)} and {tuple(self.targets.shape)}",
            )
        PIXELS.check("padding", padding)
        self.padding, self.flip, self.fill = padding, flip, fill

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """The images of a batch, each moved and mirrored by itself, and their targets."""
        rows = torch.as_tensor(indices)
        return list(zip(self.changed(self.images[rows]), self.targets[rows], strict=True))

    def changed(self, images: Tensor) -> Tensor:
        """These images, each cut out of its padded self at a place of its own, and perhaps mirrored.

        Parameters
        ----------
        images : Tensor
            Of shape (n, channels, height, width).

        Returns
        -------
        Tensor
            Of the same shape.
        """
        count, _, height, width = images.shape
        padded = F.pad(images, (self.padding,) * 4, value=self.fill)
        down, right = torch.randint(2 * self.padding + 1, (2, count, 1))
        across = torch.arange(width).repeat(count, 1)
        if self.flip:
            across = torch.where(torch.rand(count, 1) < 0.5, across.flip(1), across)
        places = torch.arange(count)[:, None, None], down[:, :, None] + torch.arange(height)[:, None]
        return padded.movedim(1, 3)[(*places, (right + across)[:, None, :])].movedim(3, 1)
