import numpy as np
import pytest
import torch

from tikhonet.data.gist import BLOCKS, HIGHEST, LENGTH, ORIENTATIONS, RATIO, SCALES, filters, gist

SIZE = 32


def random_images(count, colours=False, seed=0):
    shape = (count, 3, SIZE, SIZE) if colours else (count, SIZE, SIZE)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def grating(frequency, angle, phase=0.0, size=SIZE):
    """Brightness that varies along the direction at this angle to the horizontal axis, with so many cycles a pixel."""
    rows, columns = np.mgrid[:size, :size]
    along = columns * np.cos(angle) + rows * np.sin(angle)
    return 0.5 + 0.3 * np.sin(2 * np.pi * frequency * along + phase)


def by_filter(images):
    """Descriptors summed over blocks: images x scales x orientations."""
    return gist(images).reshape(len(images), SCALES, ORIENTATIONS, BLOCKS**2).sum(3)


@pytest.mark.parametrize("colours", [False, True])
def test_an_image_becomes_512_finite_positive_numbers(colours):
    found = gist(random_images(5, colours))
    assert (LENGTH, found.shape, found.dtype) == (512, (5, 512), np.float32)
    assert np.isfinite(found).all()
    assert (found > 0).all()


def test_a_constant_image_has_no_texture_whatever_its_brightness():
    flat = np.full((3, SIZE, SIZE), [[[0]], [[90]], [[255]]], np.uint8)
    np.testing.assert_allclose(gist(flat), 0, atol=1e-4)


def test_multiplying_bright_pixels_changes_next_to_nothing():
    """Logarithms turn a factor into a constant; only log(1 + x) in the dark keeps it from being exact."""
    image = random_images(1).astype(np.float32) / 255 * 0.5 + 0.3
    np.testing.assert_allclose(gist(1.2 * image), gist(image), rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("scale", range(SCALES))
@pytest.mark.parametrize("orientation", range(ORIENTATIONS))
def test_a_grating_excites_its_own_filter_most(scale, orientation):
    image = grating(HIGHEST / RATIO**scale, orientation * np.pi / ORIENTATIONS)
    response = by_filter(image[None].astype(np.float32))[0]
    assert int(response[scale].argmax()) == orientation
    if scale < 3:  # coarser gratings are below the prefilter's cut, which leaves little but their harmonics
        assert np.unravel_index(response.argmax(), response.shape) == (scale, orientation)


def test_the_phase_of_a_grating_does_not_matter():
    images = np.stack([grating(0.15, 0.4, phase) for phase in (0, 1, 2, 3)]).astype(np.float32)
    response = by_filter(images)
    np.testing.assert_allclose(response, np.broadcast_to(response[:1], response.shape), rtol=0.15, atol=0.05)


def test_turning_an_image_by_a_right_angle_moves_orientations_and_blocks():
    images = random_images(4)
    turned = np.rot90(images, axes=(1, 2)).copy()
    shape = (4, SCALES, ORIENTATIONS, BLOCKS, BLOCKS)
    plain, other = gist(images).reshape(shape), gist(turned).reshape(shape)
    moved = np.rot90(np.roll(plain, ORIENTATIONS // 2, axis=2), axes=(3, 4))
    np.testing.assert_allclose(other, moved, rtol=1e-3, atol=1e-4)


def test_what_is_in_a_block_is_seen_in_that_block():
    image = np.full((SIZE, SIZE), 0.5, np.float32)
    image[8:16, 24:32] = grating(0.25, 0.0, size=8)
    found = gist(image[None]).reshape(SCALES * ORIENTATIONS, BLOCKS, BLOCKS)[0]
    assert np.unravel_index(found.argmax(), found.shape) == (1, 3)


def test_neither_batches_nor_repetition_nor_the_kind_of_array_change_a_descriptor():
    images = random_images(7, colours=True)
    expected = gist(images)
    np.testing.assert_array_equal(gist(images), expected)
    images.flags.writeable = False
    np.testing.assert_array_equal(gist(images), expected)
    np.testing.assert_allclose(gist(images, batch=2), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gist(torch.tensor(images.copy())), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gist(images / np.float32(255)), expected, rtol=1e-4, atol=1e-5)


def test_equal_colours_are_grey():
    images = random_images(2)
    np.testing.assert_allclose(gist(np.repeat(images[:, None], 3, axis=1)), gist(images), rtol=1e-3, atol=1e-4)


def test_filters_pass_no_constant_part_and_peak_at_their_frequency():
    bank = filters(96).reshape(SCALES, ORIENTATIONS, 96, 96)
    assert not bank[:, :, 0, 0].any()
    frequencies = np.fft.fftfreq(96)
    for scale in range(SCALES):
        row, column = np.unravel_index(int(bank[scale, 2].argmax()), (96, 96))
        assert np.hypot(frequencies[row], frequencies[column]) == pytest.approx(HIGHEST / RATIO**scale, abs=1.5 / 96)
        assert np.arctan2(frequencies[row], frequencies[column]) == pytest.approx(np.pi / 4, abs=0.1)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.zeros((2, 1024), np.uint8), r"got \(2, 1024\); reshape"),
        (np.zeros((2, 32, 28), np.uint8), "n x size x size"),
        (np.zeros((2, 30, 30), np.uint8), "that 4 divides"),
        (np.zeros((2, 4, 32, 32), np.uint8), "n x 3 x size x size"),
        (np.zeros((0, 32, 32), np.uint8), "got"),
        (np.zeros((2, 32, 32), np.int64), "bytes or floating-point numbers"),
        (np.full((2, 32, 32), 2.0), "divide bytes by 255"),
    ],
)
def test_what_are_no_images_is_named(images, said):
    with pytest.raises(ValueError, match=said):
        gist(images)
