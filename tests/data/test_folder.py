"""Folders of image files as tables."""

import numpy as np
import pytest
from PIL import ExifTags, Image

from tikhonet.data import DataError, read_folder
from tikhonet.data.folder import shape_of

RNG = np.random.default_rng(0)


def grey(height=4, width=6):
    return RNG.integers(0, 256, (height, width), dtype=np.uint8)


def colour(height=4, width=6):
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


def put(path, values, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path, **options)
    return values


def test_grey_images_are_rows_in_the_order_of_their_names(tmp_path):
    b, a = put(tmp_path / "b.png", grey()), put(tmp_path / "a.bmp", grey())
    (tmp_path / "notes.txt").write_text("not an image")
    put(tmp_path / ".thumbnails" / "a.png", grey(2, 2))
    (tmp_path / "._b.png").write_bytes(b"of another system")
    with pytest.warns(UserWarning, match=r"1 of 3 files are left out, .* such as notes.txt"):
        table = read_folder(tmp_path)
    np.testing.assert_array_equal(table.X, np.stack([a.ravel(), b.ravel()]).astype(np.float32) / np.float32(255))
    assert table.X.dtype == np.float32
    assert table.row_names == ("a.bmp", "b.png")
    assert table.y is None


@pytest.mark.parametrize(("names", "kind"), [(("0", "10"), "i"), (("cat", "dog"), "U"), (("01", "1"), "U")])
def test_subfolders_are_labels(tmp_path, names, kind):
    for name in names:
        put(tmp_path / name / "x.png", grey())
    table = read_folder(tmp_path)
    assert table.y.tolist() == ([0, 10] if kind == "i" else list(names))
    assert table.row_names == tuple(f"{name}/x.png" for name in names)


def test_one_image_in_colour_makes_all_of_them_so_channel_first(tmp_path):
    a, b = put(tmp_path / "a.png", grey()), put(tmp_path / "b.png", colour())
    X = np.rint(read_folder(tmp_path).X * 255).reshape(2, 3, 4, 6)
    np.testing.assert_array_equal(X[0], np.stack([a] * 3))
    np.testing.assert_array_equal(X[1], b.transpose(2, 0, 1))


def test_other_sizes_are_cut_to_the_middle_and_scaled(tmp_path):
    wide = np.zeros((8, 16), np.uint8)
    wide[:, 4:12] = 200
    put(tmp_path / "a.png", wide)
    put(tmp_path / "b.png", np.full((4, 4), 100, np.uint8))
    with pytest.raises(DataError, match=r"one size, got a.png of 16 x 8 and b.png of 4 x 4; give a size"):
        read_folder(tmp_path)
    np.testing.assert_allclose(read_folder(tmp_path, 4).X * 255, [[200] * 16, [100] * 16], atol=15)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        read_folder(tmp_path, 0)


def test_a_shape_is_what_images_are_brought_to(tmp_path):
    put(tmp_path / "a.png", grey(2, 8))
    as_it_is = read_folder(tmp_path)
    np.testing.assert_array_equal(read_folder(tmp_path, shape=(2, 8)).X, as_it_is.X)
    assert read_folder(tmp_path, shape=(8, 2)).feature_names != as_it_is.feature_names
    assert read_folder(tmp_path, shape=(3, 5, 4)).X.shape == (1, 60)


def test_the_columns_of_a_table_tell_the_shape_of_its_images(tmp_path):
    put(tmp_path / "a.png", grey(2, 8))  # 16 numbers, as 4 x 4 has
    for shape in ((2, 8), (4, 4), (3, 2, 5), (3, 4, 4)):
        table = read_folder(tmp_path, shape=shape)
        assert shape_of(table.feature_names, table.X.shape[1]) == shape
    assert [shape_of([], width) for width in (784, 3072, 10)] == [(28, 28), (3, 32, 32), None]


def test_linked_folders_are_read_and_a_loop_ends(tmp_path):
    put(tmp_path / "elsewhere" / "x.png", grey())
    put(tmp_path / "photos" / "a" / "x.jfif", grey(), format="jpeg")
    (tmp_path / "photos" / "b").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "photos" / "a" / "loop").symlink_to(tmp_path / "photos", target_is_directory=True)
    assert read_folder(tmp_path / "photos").row_names == ("a/x.jfif", "b/x.png")


def test_a_photograph_on_its_side_is_set_upright(tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # stored turned by a quarter
    values = put(tmp_path / "a.png", grey(4, 6), exif=exif)
    put(tmp_path / "b.png", grey(6, 4))
    np.testing.assert_array_equal(np.rint(read_folder(tmp_path).X[0] * 255).reshape(6, 4), np.rot90(values, -1))


def test_sixteen_bits_become_the_same_range(tmp_path):
    put(tmp_path / "a.png", np.array([[0, 257 * 128, 65535]], np.uint16))
    np.testing.assert_allclose(read_folder(tmp_path).X, [[0, 128 / 255, 1]], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: None, "holds no images"),
        (lambda folder: (folder / "a.png").write_bytes(b"\x89PNG broken"), "a.png cannot be read as an image"),
        (lambda folder: (put(folder / "a.png", grey()), put(folder / "x" / "b.png", grey())), "all in its subfolders"),
        (lambda folder: put(folder / "x" / "y" / "b.png", grey()), "all in its subfolders"),
        (lambda folder: put(folder / "a.tif", np.ones((2, 2), np.float32)), "F pixels, whose range is unknown"),
    ],
    ids=["empty", "damaged", "mixed", "deep", "real"],
)
def test_what_is_no_table_of_images_is_refused(tmp_path, make, reason):
    make(tmp_path)
    with pytest.raises(DataError, match=reason):
        read_folder(tmp_path)


def test_an_image_cut_short_is_named(tmp_path):
    put(tmp_path / "a.png", grey(40, 40))
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a.png cannot be read as an image"):
        read_folder(tmp_path)
