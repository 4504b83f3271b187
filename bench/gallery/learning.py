"""tinygrad: operations on tensors, and a small network that learns pictures."""

import os

os.environ.setdefault("DEV", "CL")

import numpy as np
from kit import ON_GPU, result, timed
from tinygrad import Context, Tensor, TinyJit, nn

rng = np.random.default_rng(6)


def tensor(*shape: int) -> Tensor:
    """Numbers between 0 and 1."""
    return Tensor(rng.random(shape, dtype=np.float32))


a, b, pictures = tensor(320, 256), tensor(256, 288), tensor(8, 16, 40, 40)
result("product", (a @ b).numpy())
result("convolution", pictures.conv2d(tensor(24, 16, 3, 3), padding=1).numpy())
result("pooling", pictures.max_pool2d(3, stride=2).numpy())
result("soft maximum", a.log_softmax(axis=1).numpy())
result("sums", Tensor.cat(pictures.sum(axis=(2, 3)).flatten(), pictures.mean(axis=0).flatten()).numpy())
result("prefix sums", b.cumsum(axis=1).numpy())
result("sorted", tensor(3, 300).sort(dim=1)[0].numpy())
result("taken", b[Tensor(rng.integers(0, 256, 99).astype(np.int32))].numpy())
result("half", (a.half() @ b.half()).numpy())
Tensor.manual_seed(7)
result("random", Tensor.rand(1000, 33).numpy())


class Network:
    """Two layers of convolutions, and one that names what is on the picture."""

    def __init__(self) -> None:
        self.first, self.second = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.norm, self.last = nn.BatchNorm(16), nn.Linear(32 * 5 * 5, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """How likely each name is."""
        x = self.norm(self.first(x)).relu().max_pool2d()
        return self.last(self.second(x).relu().max_pool2d().flatten(1))


COUNT, STEPS = (8192, 100) if ON_GPU else (512, 5)
shown = Tensor(rng.random((COUNT, 1, 28, 28), dtype=np.float32))
names = Tensor(rng.integers(0, 10, COUNT).astype(np.int32))
network = Network()
learner = nn.optim.Adam(nn.state.get_parameters(network))


@TinyJit
@Context(TRAINING=1)
def step() -> Tensor:
    """What a step of learning loses."""
    learner.zero_grad()
    loss = network(shown).sparse_categorical_crossentropy(names).backward()
    return loss.realize(*learner.schedule_step())


losses = [step().item() for _ in range(3)]
result("losses", np.array(losses))
result("network", network.last.weight.numpy())


def learn() -> None:
    """Some more steps."""
    for _ in range(STEPS):
        step()
    network.last.weight.numpy()


timed(learn)
