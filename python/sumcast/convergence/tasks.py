"""What is learnt: data that Debian packages bring, and models small enough for a CPU core.

    cnn          two convolutions, on Fashion-MNIST (package dataset-fashion-mnist)     28,938 weights
    resnet18     ResNet-18 (He et al., CVPR 2016) at an eighth of its width, same data  176,258
    vgg16        VGG-16 (Simonyan and Zisserman 2015), an eighth of its width, with     231,602
                 BatchNorm and one dense layer, same data filled up to 32 x 32
    transformer  two layers, four heads, 64 wide, next character of the licences that   114,262
                 base-files installs (every tenth stretch of 2,048 characters is for the test)
"""

import dataclasses
import gzip
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

_FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
_LICENCES = pathlib.Path("/usr/share/common-licenses")
_CONTEXT = 48  # Characters that the transformer sees.


@dataclasses.dataclass
class Task:
    name: str
    model: object
    """Makes it; seeded by the caller."""
    train: tuple
    """inputs[n, ...], targets[n, ...]"""
    test: tuple
    batch: int
    """Samples per rank and step."""
    steps: int
    rates: dict
    """By optimiser; chosen for synchronous training (docs/convergence.md)."""

    def batch_of(self, indices):
        return self.train[0][indices], self.train[1][indices]


def loss_of(outputs, targets):
    """Mean cross entropy; outputs[..., classes]."""
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())


@torch.no_grad()
def accuracy_of(model, task):
    """Per cent of the test's targets that are guessed."""
    model.eval()
    right = total = 0
    for inputs, targets in zip(task.test[0].split(500), task.test[1].split(500)):
        right += int((model(inputs).argmax(-1) == targets).sum())
        total += targets.numel()
    model.train()
    return 100.0 * right / total


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, images):
        return F.relu(self.body(images) + self.shortcut(images))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def resnet18(narrowed=8):
    width = 64 // narrowed
    layers = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        outputs //= narrowed
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def vgg16(narrowed=8):
    layers, width = [nn.ZeroPad2d(2)], 1
    for block in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for outputs in block:
            outputs //= narrowed
            layers += [nn.Conv2d(width, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
                       nn.ReLU()]
            width = outputs
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 10))


class Transformer(nn.Module):
    def __init__(self, characters, width=64, heads=4, layers=2):
        super().__init__()
        self.character = nn.Embedding(characters, width)
        self.place = nn.Embedding(_CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, characters)
        mask = nn.Transformer.generate_square_subsequent_mask(_CONTEXT)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text):
        hidden = self.character(text) + self.place(torch.arange(text.shape[1]))
        return self.last(self.norm(self.layers(hidden, mask=self.mask, is_causal=True)))


def _images(kind, count):
    def read(name, header_bytes):
        path = _FASHION / name
        if not path.exists():
            raise SystemExit(f"sumcast.convergence: there is no {path}: apt-get install "
                             "dataset-fashion-mnist")
        with gzip.open(path) as file:
            return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)

    images = read(f"{kind}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:count].float() / 255
    return (images - 0.286) / 0.353, read(f"{kind}-labels-idx1-ubyte.gz", 8)[:count].long()


def _text():
    """(train, test), each (inputs, targets) i64[n, _CONTEXT], and how many characters there are."""
    files = sorted(path for path in _LICENCES.iterdir() if not path.is_symlink())
    text = "\n".join(path.read_text("utf-8", "replace") for path in files)
    alphabet = sorted(set(text))
    numbers = {character: number for number, character in enumerate(alphabet)}
    codes = torch.tensor([numbers[character] for character in text])
    parts = {False: [], True: []}
    for number, stretch in enumerate(codes.split(2048)):
        rows = (len(stretch) - 1) // _CONTEXT
        if rows > 0:
            cut = stretch[:rows * _CONTEXT + 1]
            parts[number % 10 == 9].append((cut[:-1].view(rows, -1), cut[1:].view(rows, -1)))
    train, test = (tuple(torch.cat(x) for x in zip(*parts[held])) for held in (False, True))
    return train, test, len(alphabet)


def load(name, quick=False):
    """The task of that name. quick: an eighth of the steps, to see that all works."""
    if name == "transformer":
        train, test, characters = _text()
        task = Task(name, lambda: Transformer(characters), train, test, 16, 300,
                    {"sgd": 0.1, "adamw": 0.003})
    else:
        model, steps, rates = {
            "cnn": (cnn, 400, {"sgd": 0.05, "adamw": 0.01}),
            "resnet18": (resnet18, 200, {"sgd": 0.1, "adamw": 0.01}),
            "vgg16": (vgg16, 200, {"sgd": 0.1, "adamw": 0.01}),
        }[name]
        task = Task(name, model, _images("train", 10_000), _images("t10k", 10_000), 32, steps, rates)
    if quick:
        task.steps //= 8
    return task


NAMES = ("cnn", "resnet18", "vgg16", "transformer")
