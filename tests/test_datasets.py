import doctest
import gzip
import hashlib
import io
import os
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twosample import InputError
from twosample.bench import datasets, formats, sources
from twosample.bench.datasets import disjoint

needs_data = pytest.mark.skipif(
    "TWOSAMPLE_DATA" not in os.environ, reason="TWOSAMPLE_DATA is not set"
)


def test_blob_has_the_papers_means_and_covariances():
    x, y = datasets.blob(200_000, rng=0)
    for sample, covariances in (
        (x, np.zeros(9)),
        (y, [-0.020, -0.022, -0.024, -0.026, 0, 0.020, 0.022, 0.024, 0.026]),
    ):
        nearest = np.abs(sample[:, None] - np.indices((3, 3)).reshape(2, 9).T).sum(2).argmin(1)
        assert np.bincount(nearest) / len(sample) == pytest.approx(np.full(9, 1 / 9), abs=0.005)
        for mode, covariance in enumerate(covariances):
            points = sample[nearest == mode]
            # A few points lie nearer to another centre, so tails are clipped by a little.
            assert np.cov(points.T) == pytest.approx(
                np.array([[0.03, covariance], [covariance, 0.03]]), abs=0.004
            )


def test_blob_s_is_the_null():
    x, y = datasets.blob(100_000, 50_000, different=False, rng=0)
    assert len(x) == 100_000 and len(y) == 50_000
    assert np.cov(x.T) == pytest.approx(np.cov(y.T), abs=0.02)


def test_hdgm_has_the_papers_mixture():
    x, y = datasets.hdgm(400_000, dimension=4, rng=0)
    for sample in (x, y):
        assert sample.mean(0) == pytest.approx(np.full(4, 0.25), abs=0.01)
    # Within modes: E[x1 x2] = 0.5 * (c + 0) + 0.5 * (-c + 0.25), so overall covariances agree;
    # fourth moments do not.
    assert np.cov(x.T) == pytest.approx(np.cov(y.T), abs=0.02)
    second = y[:, 2:].mean(1) > 0.25
    assert np.cov(y[~second, :2].T)[0, 1] > 0.1 > -0.05 > np.cov(y[second, :2].T)[0, 1]
    assert abs(np.cov(x[~second, :2].T)[0, 1]) < 0.1
    with pytest.raises(InputError, match="at least 2 dimensions, not 1"):
        datasets.hdgm(10, dimension=1)


def test_draws_are_those_of_the_seed():
    for draw in (datasets.blob, datasets.hdgm):
        a = draw(50, rng=1)
        b = draw(50, rng=1)
        c = draw(50, rng=2)
        assert (
            np.array_equal(a[0], b[0])
            and np.array_equal(a[1], b[1])
            and not np.array_equal(a[0], c[0])
        )


def test_the_page_on_data_sets_gives_what_it_shows_and_names_every_file():
    page = Path(__file__).parents[1] / "docs" / "reproduction" / "datasets.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 5 and results.failed == 0
    text = page.read_text()
    for source in sources.SOURCES.values():
        assert f"`{source.name}`" in text and all(f"`{file.name}`" in text for file in source.files)
        assert source.compact is None or f"`{source.compact}`" in text


# The authors' variants


def test_authors_blob_has_the_covariances_of_their_code():
    x, y = datasets.blob(200_000, authors=True, rng=0)
    # |b| = 0.02 gives [[0.0433, 0.0149], [0.0149, 0.0167]] around the first centre, where b < 0.
    near = y[np.abs(y).max(1) < 0.5]
    assert np.cov(near.T) == pytest.approx(
        np.array([[0.0433, -0.0149], [-0.0149, 0.0167]]), abs=0.003
    )
    residuals = [sample - np.clip(sample.round(), 0, 2) for sample in (x, y)]
    assert np.var(residuals[0], axis=0) == pytest.approx([0.03, 0.03], abs=0.002)
    assert np.var(residuals[1], axis=0) == pytest.approx(
        [0.0458, 0.0142], abs=0.004
    )  # the tails are clipped


def test_authors_blob_s_has_unit_covariances():
    x, y = datasets.blob(100_000, different=False, authors=True, rng=0)
    for sample in (x, y):  # 1 within the blobs and 2 / 3 between their centres
        assert np.cov(sample.T) == pytest.approx(np.eye(2) * (1 + 2 / 3), abs=0.03)


def test_authors_hdgm_has_as_many_points_of_each_gaussian_in_this_order():
    n = 100_000
    x, y = datasets.hdgm(n, 2 * n, dimension=3, authors=True, rng=0)
    for sample, covariance in ((x, 0.0), (y, 0.5)):
        first, second = np.split(sample, 2)
        assert first.mean(0) == pytest.approx(np.zeros(3), abs=0.02)
        assert second.mean(0) == pytest.approx(np.full(3, 0.5), abs=0.02)
        for half, sign in ((first, 1), (second, -1)):
            expected = np.eye(3)
            expected[0, 1] = expected[1, 0] = sign * covariance
            assert np.cov(half.T) == pytest.approx(expected, abs=0.03)
    with pytest.raises(
        InputError, match="half of the points are of each Gaussian, which 7 points cannot be"
    ):
        datasets.hdgm(10, 7, authors=True)


# Files


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """An empty cache, no data folder, and places that nobody serves; gives the folder of the
    cache."""
    monkeypatch.delenv("TWOSAMPLE_DATA", raising=False)
    monkeypatch.setenv("TWOSAMPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HIGGS", "MNIST", "CIFAR10", "CIFAR101"):
        source = getattr(sources, name)
        files = tuple(
            replace(file, urls=(f"http://127.0.0.1:1/{file.name}",)) for file in source.files
        )
        monkeypatch.setattr(sources, name, replace(source, files=files))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write_idx(path, images):
    with gzip.open(path, "wb") as stream:
        stream.write(np.array([0x0803, *images.shape], dtype=">u4").tobytes() + images.tobytes())


def write_cifar(path, batches):
    """The archive of the binary version: each record a label and three planes."""
    with tarfile.open(path, "w:gz") as archive:
        for name, images in batches.items():
            records = [bytes([3]) + image.transpose(2, 0, 1).tobytes() for image in images]
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = sum(map(len, records))
            archive.addfile(member, io.BytesIO(b"".join(records)))


def photographs(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def test_offline_it_says_which_file_from_where_and_what_else(offline, folder):
    for draw, file in (
        (datasets.higgs, "HIGGS.csv.gz"),
        (datasets.mnist, "train-images-idx3-ubyte.gz"),
        (datasets.cifar10, "cifar-10-binary.tar.gz"),
        (datasets.cifar101, "cifar10.1_v4_data.npy"),
    ):
        for place in (None, folder):
            with pytest.raises(InputError) as caught:
                draw(place)
            message = str(caught.value)
            assert message.startswith(
                f"{file} cannot be downloaded from http://127.0.0.1:1/{file} (no connection). "
            )
            assert f"{file}" in message.split("If you have")[1] and message.endswith(
                "TWOSAMPLE_DATA, or by `folder`."
            )


def test_what_nobody_serves_says_where_it_comes_from(offline, folder):
    with pytest.raises(
        InputError, match=r"fake_mnist .* make it: 'twosample bench data dcgan train FOLDER'"
    ):
        datasets.fake_mnist(folder)
    with pytest.raises(
        InputError, match=r"If you have cifar10/cifar10_test_jpeg\.npz, put it into a folder"
    ):
        datasets.cifar10_jpeg()


def test_a_missing_folder_or_array_is_a_sentence(offline, folder):
    with pytest.raises(InputError, match="by the environment variable TWOSAMPLE_DATA"):
        datasets.fake_mnist()
    with pytest.raises(InputError, match="nowhere does not exist"):
        datasets.higgs(folder / "nowhere")
    (folder / "mnist").mkdir()
    np.savez(folder / "mnist" / "mnist.npz", pictures=np.zeros(3))
    with pytest.raises(InputError, match="lacks the array 'images'; it holds pictures"):
        datasets.mnist(folder)


def test_compact_files_are_found_with_and_without_their_sub_folder(offline, folder, monkeypatch):
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    np.savez(folder / "mnist.npz", images=images)
    assert np.array_equal(datasets.mnist(folder), images)
    (folder / "mnist").mkdir()
    np.savez(folder / "mnist" / "mnist.npz", images=images[:1])
    monkeypatch.setenv("TWOSAMPLE_DATA", str(folder))
    assert np.array_equal(datasets.mnist(), images[:1])


def test_mnist_is_read_from_its_published_files(offline, folder):
    images = np.random.default_rng(0).integers(0, 256, (50, 28, 28), dtype=np.uint8)
    train, test = (folder / file.name for file in sources.MNIST.files)
    write_idx(train, images[:40])
    write_idx(test, images[40:])
    assert np.array_equal(datasets.mnist(folder), images)
    test.write_bytes(test.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte\.gz cannot be read as gz"):
        datasets.mnist(folder)
    with gzip.open(test, "wb") as stream:
        stream.write(bytes(100))
    with pytest.raises(InputError, match="does not begin as a file of images in IDX format"):
        datasets.mnist(folder)


def test_cifar10_is_read_from_its_binary_archive(offline, folder):
    images = photographs(28, seed=0)
    batches = {
        f"data_batch_{k}.bin": images[4 * k - 4 : 4 * k] for k in (3, 1, 2, 5, 4)
    }  # in any order
    path = folder / "cifar-10-binary.tar.gz"
    write_cifar(path, batches | {"test_batch.bin": images[20:], "batches.meta.bin": images[:1]})
    assert np.array_equal(datasets.cifar10(folder), images[20:])
    assert np.array_equal(datasets.cifar10(folder, "train"), images[:20])
    assert np.array_equal(datasets.cifar10(folder, "all"), images)
    with pytest.raises(InputError, match="part is 'some'; it must be 'test', 'train' or 'all'"):
        datasets.cifar10(folder, "some")
    np.savez(
        folder / "cifar10_test.npz", images=images[:3]
    )  # preferred, for the part that it holds
    assert len(datasets.cifar10(folder)) == 3 and len(datasets.cifar10(folder, "train")) == 20
    write_cifar(path, {"data_batch_1.bin": images})
    (folder / "cifar10_test.npz").unlink()
    with pytest.raises(InputError, match="it should be the binary version of CIFAR-10"):
        datasets.cifar10(folder)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(
        InputError, match=r"cifar-10-binary\.tar\.gz cannot be read as gz: .* cut short"
    ):
        datasets.cifar10(folder, "train")


def test_cifar101_is_read_from_a_file_of_its_format(offline, folder):
    images = photographs(21, seed=1)
    path = folder / "cifar10.1_v4_data.npy"
    np.save(path, images)
    assert np.array_equal(datasets.cifar101(folder), images)
    np.save(path, images[:, :28])
    with pytest.raises(
        InputError, match=r"holds uint8 \(21, 28, 32, 3\); CIFAR-10.1 is uint8 \(N, 32, 32, 3\)"
    ):
        datasets.cifar101(folder)
    np.save(path, np.array([print]), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects, which are never unpickled"):
        datasets.cifar101(folder)


def test_version_4_of_cifar101_is_the_file_that_is_known():
    # An NPY file of version 1.0 has a header of 128 bytes; 2,021 images are not the paper's 2,031.
    (file,) = sources.CIFAR101.files
    assert file.size == 128 + 2021 * 32 * 32 * 3


# HIGGS as it is published


def write_higgs(path, table):
    with gzip.open(path, "wt") as stream:
        np.savetxt(stream, table, delimiter=",", fmt="%.18e")


def made_up_higgs(rows):
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, 2, rows), rng.standard_normal((rows, 28))])


def test_higgs_is_streamed_once_into_the_cache(offline, folder, monkeypatch):
    monkeypatch.setattr(formats, "_ROWS", 700)
    table = made_up_higgs(3000)
    path = folder / "HIGGS.csv.gz"
    write_higgs(path, table)
    label = table[:, 0]
    features = table[:, 1:].astype(np.float32)
    for columns, wanted in (("all", range(28)), ("jet_phi", [7, 11, 15, 19])):
        background, signal = datasets.higgs(folder, columns=columns)
        assert background.dtype == signal.dtype == np.float32
        assert np.array_equal(background, features[label == 0][:, wanted])
        assert np.array_equal(signal, features[label == 1][:, wanted])
    (compact,) = offline.glob("*.npz")
    made = compact.stat().st_mtime_ns
    datasets.higgs(folder)
    assert compact.stat().st_mtime_ns == made  # used, not made again
    assert [file.name for file in offline.iterdir() if not file.name.startswith(".")] == [
        compact.name
    ]
    write_higgs(path, table[:100])  # another file of that name is another data set
    assert sum(map(len, datasets.higgs(folder))) == 100
    # What is in the cache is of the compact kind itself.
    os.replace(compact, folder / "higgs.npz")
    assert sum(map(len, datasets.higgs(folder))) == 3000


def test_the_text_of_higgs_is_never_held(offline, folder, monkeypatch):
    monkeypatch.setattr(formats, "_ROWS", 2000)
    lines = io.StringIO()
    np.savetxt(lines, made_up_higgs(1000), delimiter=",", fmt="%.18e")
    with gzip.open(folder / "HIGGS.csv.gz", "wt", compresslevel=1) as stream:
        for _ in range(40):
            stream.write(lines.getvalue())
    tracemalloc.start()
    try:
        formats.compact_higgs(folder / "HIGGS.csv.gz", folder / "higgs.npz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(lines.getvalue()) * 40 / 3
    assert sum(map(len, datasets.higgs(folder))) == 40_000


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: [*lines[:20], "1.0,2.0\n", *lines[21:]], "in the lines after 0: .*columns"),
        (
            lambda lines: [*lines[:20], lines[20].replace("e", "?", 1), *lines[21:]],
            "in the lines after 0: .*convert",
        ),
        (
            lambda lines: [line.partition(",")[2] for line in lines],
            r"a label \(0 or 1\) and 28 numbers",
        ),
        (lambda lines: ["7" + line for line in lines], r"a label \(0 or 1\) and 28 numbers"),
        (lambda lines: [], "holds no rows"),
    ],
)
def test_what_is_not_higgs_is_a_sentence_and_leaves_nothing(offline, folder, spoil, message):
    text = io.StringIO()
    np.savetxt(text, made_up_higgs(50), delimiter=",", fmt="%.8e")
    with gzip.open(folder / "HIGGS.csv.gz", "wt") as stream:
        stream.writelines(spoil(text.getvalue().splitlines(keepends=True)))
    with pytest.raises(InputError, match=rf"HIGGS\.csv\.gz.*{message}"):
        datasets.higgs(folder)
    assert all(file.name.endswith(".lock") for file in offline.iterdir())


def test_a_higgs_file_that_is_cut_short_is_noticed(offline, folder):
    path = folder / "HIGGS.csv.gz"
    write_higgs(path, made_up_higgs(500))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"HIGGS\.csv\.gz cannot be read as gz: .* cut short"):
        datasets.higgs(folder)
    assert all(file.name.endswith(".lock") for file in offline.iterdir())


# Images as in the paper


def test_images_are_resized_as_pillow_does():
    Image = pytest.importorskip("PIL.Image")
    digits = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    for images, size in ((digits, 32), (photographs(5, seed=0), 64)):
        resized = datasets.images_for_paper(images, size)
        assert resized.dtype == np.uint8
        for image, larger in zip(images, resized, strict=True):
            assert np.array_equal(
                larger, np.asarray(Image.fromarray(image).resize((size, size), Image.BILINEAR))
            )
    assert np.array_equal(datasets.images_for_paper(digits, 28), digits)


# Training and test sets from a pool


def test_no_row_is_trained_on_and_tested():
    pools = disjoint(np.arange(1000), np.arange(1000, 1600), train=(300, 200), rng=0)
    assert [len(sample) for sample in pools.train] == [300, 200]
    trained = set(np.concatenate(pools.train))
    assert len(trained) == 500
    for _ in range(20):
        x, y = pools.test(150, 90)
        assert len(set(x)) == 150 and len(set(y)) == 90 and not trained & {*x, *y}
        assert x.max() < 1000 <= y.min()


def test_test_sets_share_no_row_as_long_as_there_are_enough():
    pools = disjoint(np.arange(1000), np.arange(1000), train=100, rng=0)
    assert pools.repeats(200) == 4 and pools.repeats(200, 300) == 3
    drawn = [pools.test(200) for _ in range(5)]
    for samples in zip(*drawn, strict=True):
        assert len(set(np.concatenate(samples[:4]))) == 800
        assert (
            len(set(np.concatenate(samples))) < 1000
        )  # the fifth has rows that were tested before


def test_under_the_null_both_samples_come_from_one_pool_and_share_no_row():
    pools = disjoint(np.arange(500), None, train=100, rng=0)
    trained = set(np.concatenate(pools.train))
    assert len(trained) == 200 and pools.repeats(100) == 1 and pools.repeats(50) == 3
    for _ in range(10):
        both = np.concatenate(pools.test(100))
        assert len(set(both)) == 200 and not trained & set(both)


def test_pools_are_those_of_the_seed_and_say_when_they_are_too_small():
    x = np.arange(50)
    first, same, other = (disjoint(x, x, 10, rng=seed).test(10)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, same) and not np.array_equal(first, other)
    with pytest.raises(InputError, match="60 rows are wanted of a pool that has 50"):
        disjoint(x, x, 60)
    with pytest.raises(InputError, match="41 rows are wanted of a pool that has 40"):
        disjoint(x, x, 10).test(41)
    with pytest.raises(InputError, match="42 rows are wanted of a pool that has 30"):
        disjoint(x, None, 10).test(21)


@needs_data
def test_real_data_are_what_they_should_be():
    background, signal = datasets.higgs()
    assert (
        background.shape == (25576, 4)
        and signal.shape == (28846, 4)
        and np.abs(background).max() < 1.75
    )
    assert datasets.higgs(columns="all")[0].shape == (25576, 28)
    with pytest.raises(InputError, match="columns is 'some'"):
        datasets.higgs(columns="some")
    assert datasets.mnist().shape == (70000, 28, 28) and datasets.fake_mnist().shape == (
        10000,
        28,
        28,
    )
    # The canonical bytes of the uncompressed IDX file after its header, and of CIFAR-10's test
    # images.
    header = np.array([0x0803, 60000, 28, 28], dtype=">u4").tobytes()
    trained = hashlib.sha256(header + datasets.mnist()[:60000].tobytes()).hexdigest()
    assert trained == "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    images = datasets.cifar10()
    compressed = datasets.cifar10_jpeg()
    assert hashlib.sha256(images.tobytes()).hexdigest().startswith("f9b1e2130bab680d")
    assert (
        np.abs(images[1::2].astype(float) - compressed).mean() < 8
    )  # the same pictures, of which [::2] has none


@needs_data
def test_raw_digits_of_a_generator_are_told_from_real_ones():
    import twosample

    rng = np.random.default_rng(0)
    real = datasets.mnist()[rng.permutation(60000)[:200]]
    fake = datasets.fake_mnist()[rng.permutation(10000)[:200]]
    assert twosample.mmd_d(steps=30, permutations=99).run(real, fake, rng=0).pvalue == 0.01
