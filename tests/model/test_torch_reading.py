"""Modules of PyTorch as networks and back."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.nn import functional as F  # noqa: N812

import tikhonet
from tests.strategies import image_networks, networks, normal, seeds
from tikhonet import (
    BIAS,
    AvgPool2d,
    Blocks,
    ClippedReLU,
    Conv2d,
    GlobalAverage,
    Identity,
    Network,
    TorchBlocks,
    from_torch,
)
from tikhonet.model import storage
from tikhonet.model.storage import ModelFormatError
from tikhonet.network.errors import ArgumentError


def same(one: TorchBlocks, two: TorchBlocks) -> bool:
    tensors = [(one.V, two.V), (one.intercept, two.intercept), *((one.W[pair], two.W[pair]) for pair in one.W)]
    return one.network == two.network and all(torch.equal(*pair) for pair in tensors)


def scores(read: TorchBlocks, X: torch.Tensor) -> torch.Tensor:
    return read.network.features(X.flatten(1), read.W) @ read.V.T + read.intercept


def check(module: nn.Module, shape: tuple[int, ...], seed: int = 0) -> TorchBlocks:
    """The network that was read has the module's scores, and can be written and read again."""
    read, X = from_torch(module, shape), normal(4, *shape, seed=seed).float()
    with torch.no_grad():
        torch.testing.assert_close(scores(read, X), module.eval()(X))
    assert same(from_torch(read.to_torch(), shape), read)
    return read


class Residual(nn.Module):
    """Everything that may be read, some of it written as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding="same", bias=False)
        self.branch, self.skip = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(2, 4, 1)
        self.middle, self.last = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=2)
        self.drop, self.dense, self.head = nn.Dropout(0.3), nn.Linear(16, 5), nn.Linear(5, 3, bias=False)

    def forward(self, x):
        u = F.relu(self.first(x))
        v = torch.relu(self.branch(u) + self.skip(x))
        u = nn.functional.relu(self.middle(v) + u)
        u = F.avg_pool2d(u, 2)
        v = self.last(u).relu()
        v = torch.add(v, F.adaptive_avg_pool2d(u, (2, 2)))
        v = v.view(v.size(0), -1)
        return self.head(F.relu(self.drop(self.dense(v))))


class Functions(nn.Module):
    """A forward pass of one's own, with parameters by the name of a layer."""

    def __init__(self, forward, **layers: nn.Module) -> None:
        super().__init__()
        self.call = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.call(self, x)


def test_modules_with_additions_are_read_and_written_in_place():
    torch.manual_seed(0)
    module = Residual()
    read = check(module, (2, 8, 8))
    assert read.network.edges[3, 1] == Identity().join((4, 8, 8), (4, 8, 8))
    assert [n for n, m in read.network.edges if m == BIAS] == [2, 3, 5, 7]
    fitted = read.with_blocks(Blocks({}, 2 * read.V, {pair: 3 * matrix for pair, matrix in read.W.items()}))
    assert fitted.write(module) is module
    assert not module.skip.bias.any()  # the two biases of a layer are one, and stand in the first
    X = normal(4, 2, 8, 8).float()
    torch.testing.assert_close(scores(fitted, X), module(X).detach())
    with pytest.raises(ArgumentError, match="must have a bias in its last Linear"):
        read.with_blocks(Blocks({}, read.V, read.W), intercept=torch.ones(3)).write(module)


@settings(max_examples=40)
@given(image_networks() | networks(), seeds)
def test_a_network_written_and_read_is_the_same(network, seed):
    fed = {n for n, m in network.learned if m != BIAS}
    W = {pair: normal(*network.shape(pair), seed=seed + k) for k, pair in enumerate(network.learned)}
    read = TorchBlocks(network, W, normal(3, network.widths[-1], seed=seed), normal(3, seed=seed))
    if any(n not in fed for n, m in network.edges if m == BIAS):
        with pytest.raises(ArgumentError, match="must learn an edge for its bias"):
            read.to_torch()
        return
    X = normal(5, *network.shapes[0], seed=seed)
    torch.testing.assert_close(read.to_torch()(X).detach(), scores(read, X))
    again = from_torch(read.to_torch(), network.shapes[0])
    if network.learned and not network.has_images and len(again.network.shapes) < len(network.shapes):
        return  # an identity between layers is the layer itself
    assert same(again, read)


def test_functions_are_read_like_modules():
    conv, dense, head = nn.Conv2d(1, 3, 3), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        u = F.relu6(self.conv(x)).mean((2, 3))
        return self.head(F.hardtanh(self.dense(u), 0, 6))

    read = check(Functions(forward, conv=conv, dense=dense, head=head), (1, 5, 6))
    assert read.network == Network.sequential((1, 5, 6), Conv2d(3, 3), GlobalAverage(), 4, activation=ClippedReLU(6.0))


@pytest.mark.parametrize(
    "flatten",
    [
        lambda x: torch.flatten(x, start_dim=1),
        lambda x: x.flatten(start_dim=1, end_dim=3),
        lambda x: x.view(x.shape[0], -1),
        lambda x: x.view(x.size(0), 48),
        lambda x: x.view(-1, 48),
        lambda x: x.reshape((-1, 3 * 4 * 4)),
        lambda x: F.dropout2d(x, training=False).flatten(1),
    ],
)
def test_images_may_be_flattened_in_any_way_that_keeps_a_row_for_each(flatten):
    layers = {"conv": nn.Conv2d(1, 3, 3), "head": nn.Linear(8, 2), "dense": nn.Linear(48, 8)}
    relu = torch.relu_
    check(Functions(lambda m, x: m.head(F.relu(m.dense(flatten(relu(m.conv(x)))))), **layers), (1, 6, 6))


def test_a_mean_of_whole_images_is_an_image_of_one_pixel_until_it_is_flattened():
    torch.manual_seed(0)
    first = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    flat = check(nn.Sequential(*first, nn.Flatten(), nn.Linear(4, 2)), (1, 6, 5))
    assert flat.network == Network.sequential((1, 6, 5), Conv2d(4, 3), GlobalAverage())
    head = check(nn.Sequential(*first, nn.Conv2d(4, 8, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), (1, 6, 5))
    assert head.network == Network.sequential((1, 6, 5), Conv2d(4, 3), AvgPool2d((4, 3)), Conv2d(8, 1))
    window = check(nn.Sequential(*first[:2], nn.AvgPool2d((4, 3)), nn.Flatten(), nn.Linear(4, 2)), (1, 6, 5))
    assert window.network == Network.sequential((1, 6, 5), Conv2d(4, 3), AvgPool2d((4, 3)))
    layers = {"conv": nn.Conv2d(1, 4, 3), "squeeze": nn.Conv2d(4, 2, 1), "head": nn.Linear(4, 2)}
    back = nn.Conv2d(2, 4, 1)

    def forward(self, x):
        pixel = F.relu(self.conv(x)).mean((2, 3), keepdim=True)
        return self.head((self.back(F.relu(self.squeeze(pixel))) + pixel).relu().flatten(1))

    assert check(Functions(forward, **layers, back=back), (1, 6, 5)).network.shapes[2] == (4, 1, 1)


@pytest.mark.parametrize(
    "mean", [nn.AdaptiveAvgPool2d(1), Functions(lambda self, x: x.mean((2, 3), keepdim=True))], ids=["pool", "mean"]
)
def test_a_mean_that_nothing_flattens_is_refused_as_torch_refuses_it(mean):
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), mean, nn.Linear(4, 2))
    with pytest.raises(RuntimeError):
        module(torch.ones(2, 1, 6, 6))
    with pytest.raises(ArgumentError, match=r"must flatten images of shape \(4, 1, 1\) before '3'"):
        from_torch(module, (1, 6, 6))


def test_layers_may_be_called_by_the_names_of_their_arguments():
    def forward(self, x):
        u = F.adaptive_avg_pool2d(F.relu(input=self.conv(input=x)), output_size=1)
        return self.head(input=torch.flatten(input=self.same(input=u), start_dim=1))

    check(Functions(forward, conv=nn.Conv2d(1, 4, 3), same=nn.Identity(), head=nn.Linear(4, 2)), (1, 6, 6))
    with pytest.raises(ArgumentError, match="calls 'a' with 2 inputs; give it one"):
        from_torch(Functions(lambda self, x: self.a(x, x), a=nn.Linear(3, 2)), 3)


def test_reading_leaves_the_module_and_writing_asks_for_the_same_layers():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    before = copy.deepcopy(module.state_dict())
    read = from_torch(module.train(), 4)
    read.W[1, 0].zero_()
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    with pytest.raises(ArgumentError, match="module must have the layers of"):
        read.write(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)))


@pytest.mark.parametrize(
    ("shape", "argument", "words"),
    [
        ((6, 6), "input_shape", r"input_shape must be the width of a row or \(channels, .* got \(6, 6\)"),
        (0, "input_shape", "got 0"),
        (36, "module", "'0' takes images, got rows of 36 numbers; check input_shape"),
    ],
)
def test_a_shape_that_is_none_of_the_module_is_refused(shape, argument, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        from_torch(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)), shape)
    assert caught.value.argument == argument


def test_labels_that_are_words_are_refused():
    read = from_torch(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 4)
    with pytest.raises(ArgumentError, match=r"y must hold numbers, got .*cat.*; number the classes"):
        read.fit(normal(2, 4).float(), np.array(["cat", "dog"]))


class Own(nn.Linear):
    """A class of one's own, into which torch.fx looks."""


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), *layers, nn.Flatten(), nn.LazyLinear(3))


def branches(x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (chain(nn.ReLU(), nn.MaxPool2d(2)), "'2', a MaxPool2d, .* use nn.AvgPool2d"),
        (chain(nn.BatchNorm2d(2), nn.ReLU()), "'1', a BatchNorm2d, .*fuse_conv_bn_eval"),
        (chain(nn.GELU()), "a GELU, .* use nn.ReLU"),
        (Functions(lambda self, x: nn.functional.max_pool2d(x, 2)), "'max_pool2d' .* use nn.AvgPool2d"),
        (Functions(lambda self, x: nn.functional.gelu(self.a(x)), a=nn.Conv2d(1, 1, 1)), "'gelu' .* use nn.ReLU"),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()), "'0' takes 3 channels, got 1; check input_shape"),
        (chain(nn.Hardtanh()), "a Hardtanh, .* use nn.ReLU or nn.Hardtanh"),
        (chain(nn.ReLU(), nn.Conv2d(2, 2, 1), nn.ReLU6()), "one activation for all layers"),
        (chain(nn.AvgPool2d(2), nn.ReLU()), "no activation before a mean"),
        (nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(9, 2)), "no activation before"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 2), nn.Linear(2, 2)), "no activation before '2'"),
        (nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)), "must flatten images"),
        (nn.Sequential(nn.Flatten(), nn.Linear(35, 2)), "takes 35 inputs, got 36"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 2), nn.ReLU()), "must end with a Linear layer"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), "must end with a Linear layer"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding_mode="circular"), nn.ReLU()), "must pad with zeros"),
        (nn.Sequential(nn.Conv2d(1, 2, 2, padding="same"), nn.ReLU()), "pads unevenly"),
        (nn.Sequential(nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True)), "must not have ceil_mode"),
        (nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(4)), "windows of several sizes"),
        (Functions(lambda self, x: self.a(x).relu() * 2, a=nn.Conv2d(1, 1, 1)), "has 'mul'"),
        (Functions(lambda self, x: self.a(x).relu() + 1, a=nn.Conv2d(1, 1, 1)), "something else than layers"),
        (Functions(lambda self, x: self.a(self.a(x).relu()), a=nn.Conv2d(1, 1, 1)), "uses 'a' twice"),
        (Functions(lambda self, x: self.a(x).relu() + x, a=nn.Conv2d(1, 1, 1)), "must end with"),
        (Functions(lambda self, x: (self.a(x) + x).relu(), a=nn.Conv2d(1, 1, 1)), "two operators of layer 0"),
        (Functions(lambda self, x: x.view(-1, 6)), r"only x.view\(x.size\(0\), -1\), or x.view\(-1, 36\)"),
        (Functions(lambda self, x: x.view(1, -1)), r"only x.view\(x.size\(0\), -1\)"),
        (Functions(lambda self, x: x.flatten(2)), "flattens dimensions 2 to -1"),
        (Functions(lambda self, x: x[:, :, 1:]), "takes a part of a layer"),
        (Functions(lambda self, x: x.T), "uses 'T' of a layer"),
        (Functions(lambda self, x: self.a(x).relu().mean(-1), a=nn.Conv2d(1, 1, 1)), "means over dimensions -1"),
        (Functions(lambda self, x: self.a(x).clamp(min=0), a=nn.Conv2d(1, 1, 1)), "'clamp' .* use nn.ReLU"),
        (Functions(lambda self, x: x.flatten(dims=1)), "calls 'flatten' in a way that is not supported"),
        (chain(nn.Mish()), "a Mish, .* use nn.ReLU"),
        (chain(nn.Threshold(0.1, 0)), "a Threshold, .* use nn.ReLU"),
        (chain(nn.ReLU(), nn.ConvTranspose2d(2, 2, 2)), "a ConvTranspose2d, .* no layer here makes larger images"),
        (chain(nn.ReLU(), nn.Upsample(2)), "an? Upsample, .* no layer here makes larger images"),
        (Functions(lambda self, x: F.interpolate(x, 12)), "'interpolate' .* no layer here makes larger images"),
        (Functions(lambda self, x: torch.cat([x, x], 1)), "'cat' .* add layers in place of joining them"),
        (Functions(lambda self, x: self.a(x) - x, a=nn.Conv2d(1, 1, 1)), "'sub' .* change the sign of the weights"),
        (Functions(lambda self, x: x * x), "'mul' .* multiply the weights behind it"),
        (Functions(lambda self, x: x / 2), "'truediv' .* divide the weights behind it"),
        (Functions(lambda self, x: x.amax((2, 3))), "'amax' .* a maximum is no linear operator"),
        (nn.Sequential(nn.Flatten(), Own(36, 2)), "the parameter '1.weight' of 1, a Own, by hand.* call them"),
        (nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(1, 2, 3)), "a ZeroPad2d, .* give the convolution .* its padding"),
        (nn.Sequential(nn.LazyConv2d(2, 3)), "a LazyConv2d, .* call the module once"),
        (Functions(lambda self, x: branches(x)), "cannot be traced by torch.fx"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name_with_what_to_do(module, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        from_torch(module, (1, 6, 6))
    assert caught.value.argument in ("module", "edges")


def test_a_module_that_was_read_has_a_file(tmp_path):
    torch.manual_seed(0)
    read, path = from_torch(Residual(), (2, 8, 8)), tmp_path / "module.tikhonet"
    read.save(path)
    loaded = tikhonet.load(path)
    assert same(loaded, read)
    module = loaded.write(Residual()).eval()
    X = normal(4, 2, 8, 8).float()
    torch.testing.assert_close(module(X).detach(), scores(read, X))


@pytest.mark.parametrize(
    ("header", "changed"),
    [
        ({"estimator": "BCDClassifier"}, {}),
        ({"network": None}, {}),
        ({}, {"V": torch.ones(2, 5)}),
        ({}, {"V": torch.ones(2, 3).long()}),
        ({}, {"intercept": torch.ones(3)}),
        ({}, {"intercept": torch.tensor(1.0)}),
        ({}, {"W.1.0": torch.ones(3, 5)}),
        ({}, {"V": None}),
    ],
)
def test_a_file_that_does_not_fit_is_refused(header, changed, tmp_path):
    read, path = from_torch(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 4), tmp_path / "m"
    read.save(path)
    old, tensors = storage.load(path)
    storage.save(path, old | header, {name: M for name, M in (tensors | changed).items() if M is not None})
    with pytest.raises(ModelFormatError, match="does not hold a whole TorchBlocks"):
        TorchBlocks.load(path)


def test_what_was_read_is_shown_without_its_weights():
    read = from_torch(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 2)), 40)
    assert repr(read) == f"TorchBlocks(network={read.network!r})"


def test_the_scores_of_a_model_are_those_of_images_in_their_shape():
    read, X = from_torch(Residual(), (2, 8, 8)), normal(4, 2, 8, 8).numpy()
    model = read.to_model()
    assert np.array_equal(model.scores(X), model.scores(X.reshape(4, -1)))
    with pytest.raises(ArgumentError, match="X must hold images 2x8x8, or rows of 128 numbers"):
        model.scores(X[:, :1])
