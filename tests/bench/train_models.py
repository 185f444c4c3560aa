"""The models of train.py in PyTorch, written as a user of PyTorch would, with parameters in the order of mlx's graphs.

Each maker takes the model's table of train.toml (a dict) and gives a module whose parameters(), in order, are mlx's; a
4-dimensional weight of mlx is [O,H,W,I], of PyTorch [O,I,H,W].
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        sizes = [math.prod(shape)] + list(config["hidden"])
        layers = [NhwcFlatten()]
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], classes))

    def forward(self, x):
        return self.net(x)


class Cnn(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        channels, size, layers, flat = shape[0], shape[1], [], None
        for layer in config["layers"]:
            if "conv" in layer:
                norm = layer.get("norm", "none") == "batch"
                stride, kernel = layer.get("stride", 1), layer.get("kernel", 3)
                layers.append(nn.Conv2d(channels, layer["conv"], kernel, stride, kernel // 2, bias=not norm))
                channels, size = layer["conv"], -(-size // stride)
                layers += ([nn.BatchNorm2d(channels)] if norm else []) + [nn.ReLU()]
            elif layer.get("pool") == "max":
                layers.append(nn.MaxPool2d(layer.get("size", 2)))
                size //= layer.get("size", 2)
            elif layer.get("pool") == "global":
                layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
                flat = channels
            elif "dropout" in layer:
                layers.append(nn.Dropout(layer["dropout"]))
            elif "flatten" in layer:
                layers.append(NhwcFlatten())
                flat = channels * size * size
            else:
                norm = layer.get("norm", "none") == "batch"
                layers.append(nn.Linear(flat, layer["dense"], bias=not norm))
                flat = layer["dense"]
                layers += ([nn.BatchNorm1d(flat)] if norm else []) + [nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(flat, classes))

    def forward(self, x):
        return self.net(x)


class NhwcFlatten(nn.Module):
    """Rows in mlx's order, so that the same weights follow."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def conv_norm(cin, cout, kernel, stride=1, groups=1):
    return [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]


class Residual(nn.Module):
    def __init__(self, cin, width, stride, bottleneck):
        super().__init__()
        cout = width * 4 if bottleneck else width
        if bottleneck:
            self.body = nn.Sequential(*conv_norm(cin, width, 1), nn.ReLU(), *conv_norm(width, width, 3, stride), nn.ReLU(),
                                      *conv_norm(width, cout, 1))
        else:
            self.body = nn.Sequential(*conv_norm(cin, width, 3, stride), nn.ReLU(), *conv_norm(width, width, 3))
        self.shortcut = nn.Sequential(*conv_norm(cin, cout, 1, stride)) if stride != 1 or cin != cout else None
        self.width = cout

    def forward(self, x):
        return F.relu(self.body(x) + (self.shortcut(x) if self.shortcut is not None else x))


class ResNet(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        depth, large = config["depth"], config["depth"] in (18, 34, 50)
        if large:
            counts, widths, bottleneck = {18: [2, 2, 2, 2]}.get(depth, [3, 4, 6, 3]), [64, 128, 256, 512], depth == 50
        else:
            counts, widths, bottleneck = [(depth - 2) // 6] * 3, [16, 32, 64], False
        widths = [round(width * config.get("width", 1)) for width in widths]
        if config.get("stem", "imagenet" if large else "cifar") == "imagenet":
            stem = [*conv_norm(shape[0], widths[0], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        else:
            stem = [*conv_norm(shape[0], widths[0], 3), nn.ReLU()]
        blocks, cin = [], widths[0]
        for stage, (count, width) in enumerate(zip(counts, widths)):
            for i in range(count):
                blocks.append(Residual(cin, width, 2 if stage > 0 and i == 0 else 1, bottleneck))
                cin = blocks[-1].width
        self.net = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))

    def forward(self, x):
        return self.net(x)


class Inverted(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        hidden = cin * expand
        self.body = nn.Sequential(*([*conv_norm(cin, hidden, 1), nn.ReLU6()] if expand != 1 else []),
                                  *conv_norm(hidden, hidden, 3, stride, hidden), nn.ReLU6(), *conv_norm(hidden, cout, 1))
        self.add = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.add else self.body(x)


def rounded(width):
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest


class MobileNetV2(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        multiplier, self.left_out = config.get("width", 1), 5 - config.get("halvings", 5)
        cin = rounded(32 * multiplier)
        blocks = [*conv_norm(shape[0], cin, 3, self.stride(2)), nn.ReLU6()]
        for expand, cout, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)]:
            cout = rounded(cout * multiplier)
            for i in range(count):
                blocks.append(Inverted(cin, cout, self.stride(stride if i == 0 else 1), expand))
                cin = cout
        last = rounded(1280 * max(1, multiplier))
        blocks += [*conv_norm(cin, last, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        if config.get("dropout", 0.2):
            blocks.append(nn.Dropout(config.get("dropout", 0.2)))
        self.net = nn.Sequential(*blocks, nn.Linear(last, classes))

    def stride(self, wanted):
        """The first halvings are left out where fewer are wanted."""
        if wanted == 2 and self.left_out > 0:
            self.left_out -= 1
            return 1
        return wanted

    def forward(self, x):
        return self.net(x)


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.qkv, self.projection = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + F.dropout(self.projection(y), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), self.dropout, self.training)


class Gpt2(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        width, dropout = config["width"], config.get("dropout", 0.0)
        self.dropout = dropout
        self.tokens = nn.Embedding(classes, width)
        self.positions = nn.Parameter(torch.zeros(config["context"], width))
        self.blocks = nn.ModuleList(GptBlock(width, config["heads"], dropout) for _ in range(config["layers"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = F.dropout(self.tokens(ids) + self.positions[: ids.shape[1]], self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)

    def in_order(self):
        """tokens, positions, blocks, norm: as they stand in the graph."""
        yield self.tokens.weight
        yield self.positions
        yield from self.blocks.parameters()
        yield from self.norm.parameters()


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.gamma.shape, self.gamma, 1e-5)


def rope(x, theta):
    """Rotates halves: x [batch, heads, time, size]."""
    half = x.shape[-1] // 2
    rates = theta ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = torch.arange(x.shape[2], dtype=torch.float64, device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads = config["width"], config["heads"]
        self.kv, self.theta = config.get("kv_heads", self.heads), config.get("theta", 10000.0)
        self.size, self.hidden = width // self.heads, config["hidden"]
        self.norm1 = RmsNorm(width)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv) * self.size, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.norm2 = RmsNorm(width)
        self.up, self.down = nn.Linear(width, 2 * self.hidden, bias=False), nn.Linear(self.hidden, width, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        parts = self.qkv(self.norm1(x)).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], 2)
        q, k, v = (p.view(b, t, -1, self.size).transpose(1, 2) for p in parts)
        q, k = rope(q, self.theta), rope(k, self.theta)
        k, v = (p.repeat_interleave(self.heads // self.kv, 1) for p in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.projection(y)
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, config, shape, classes):
        super().__init__()
        self.tokens = nn.Embedding(classes, config["width"])
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config["layers"]))
        self.norm = RmsNorm(config["width"])
        self.head = None if config.get("tie", False) else nn.Linear(config["width"], classes, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight if self.head is None else self.head.weight)


MAKERS = {"mlp": Mlp, "cnn": Cnn, "resnet": ResNet, "mobilenet_v2": MobileNetV2, "gpt2": Gpt2, "llama": Llama}


def make(config, shape, classes):
    """`shape` is C, H, W of an image, or the context of a text; `classes` also the size of a vocabulary."""
    return MAKERS[config["family"]](config, shape, classes)


def in_order(module):
    return list(module.in_order()) if hasattr(module, "in_order") else list(module.parameters())


def load(module, arrays):
    """Copies mlx's initial weights, [(name, array)…], into the module; AssertionError naming what does not fit."""
    mine = in_order(module)
    assert len(mine) == len(arrays), f"{len(mine)} parameters here, {len(arrays)} in mlx: {[n for n, _ in arrays]}"
    with torch.no_grad():
        for parameter, (name, array) in zip(mine, arrays):
            value = torch.from_numpy(array)
            if value.dim() == 4:
                value = value.permute(0, 3, 1, 2)
            assert value.shape == parameter.shape, f"{name}: {tuple(value.shape)} in mlx, {tuple(parameter.shape)} here"
            parameter.copy_(value)
