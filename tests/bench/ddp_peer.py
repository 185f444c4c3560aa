"""One rank of ddp.py's peer: PyTorch's DistributedDataParallel over Gloo, on the batches that mlx takes.

usage: ddp_peer.py FOLDER RANK train MODE EPOCHS
       ddp_peer.py FOLDER RANK sum FLOATS ROUNDS

The first rank writes FOLDER/answer.json. The order of examples is that of mlx (src/data/order.cpp): a Fisher-Yates
shuffle keyed by Philox 4x32-10.
"""
import json
import os
import statistics
import struct
import sys
import time

SEED, WARM = 1, 3
MASK = 0xFFFFFFFF


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & MASK, a >> 32 ^ counter[3] ^ key[1], a & MASK]
        key = [key[0] + 0x9E3779B9 & MASK, key[1] + 0xBB67AE85 & MASK]
    return counter


def random_block(stream, step, block):
    mixed = int.from_bytes(stream, "big") * 0x9E3779B97F4A7C15 + step
    return philox((block & MASK, block >> 32, mixed & MASK, mixed >> 32 & MASK), (SEED & MASK, SEED >> 32))


def shuffled(count, epoch):
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        random, half = random_block(b"shuffle", epoch, i // 2), 2 * (i % 2)
        j = (random[half] << 32 | random[half + 1]) * (i + 1) >> 64
        order[i], order[j] = order[j], order[i]
    return order


def share_of(batch, rank):
    return slice(batch * rank // 2, batch * (rank + 1) // 2)


def epochs_of(count, batch, rank, epochs):
    """The rank's examples of each batch."""
    for epoch in range(epochs):
        order = shuffled(count, epoch)
        for at in range(0, count // batch * batch, batch):
            yield epoch, order[at:at + batch][share_of(batch, rank)]


def image_batches(folder, batch, rank, epochs, last):
    import numpy as np
    import torch

    pixels = np.fromfile(f"{folder}/data/images/train-images.idx3-ubyte", np.uint8)[16:].reshape(-1, 1, 28, 28)
    labels = torch.from_numpy(np.fromfile(f"{folder}/data/images/train-labels.idx1-ubyte", np.uint8)[8:].astype(np.int64))
    scaled = pixels / 255.0
    images = torch.from_numpy(((scaled - scaled.mean()) / scaled.std()).astype(np.float32))
    memory = torch.channels_last if last else torch.contiguous_format
    for _, examples in epochs_of(len(labels), batch, rank, epochs):
        index = torch.tensor(examples)
        yield images[index].contiguous(memory_format=memory), labels[index]


def text_batches(folder, batch, rank, epochs, context):
    import numpy as np
    import torch

    text = torch.from_numpy(np.fromfile(f"{folder}/data/text/train.txt", np.uint8).astype(np.int64))
    windows = max(1, (len(text) - 1) // context - 1)
    slack = len(text) - 1 - windows * context
    for epoch, examples in epochs_of(windows, batch, rank, epochs):
        offset = random_block(b"offset", epoch, 0)[0] * (slack + 1) >> 32
        begin = torch.tensor(examples)[:, None] * context + offset
        both = text[begin + torch.arange(context + 1)]
        yield both[:, :-1].contiguous(), both[:, 1:].contiguous()


def initial_weights(folder):
    import numpy as np

    content = open(f"{folder}/init.safetensors", "rb").read()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    for name in json.load(open(f"{folder}/init.json")):
        begin, end = (8 + size + offset for offset in header[name]["data_offsets"])
        yield name, np.frombuffer(content[begin:end], np.float32).reshape(header[name]["shape"]).copy()


def make_optimizer(parameters, keys):
    import torch

    if keys["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, lr=keys["learning_rate"], momentum=keys["momentum"], nesterov=True, fused=True)
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": keys["weight_decay"]},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=keys["learning_rate"], betas=(0.9, keys["beta2"]), fused=True)


def train(folder, rank, mode, epochs):
    import torch
    import torch.distributed as dist
    import train_models

    case = json.load(open(f"{folder}/case.json"))
    text, last = case["data"] == "text", "channels-last" in mode
    module = train_models.make(case["model"], None if text else [1, 28, 28], 256 if text else 10)
    train_models.load(module, list(initial_weights(folder)))
    if last:
        module = module.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(train_models.in_order(module), case["optimizer"])
    # The copies of the statistics that each forward pass would send are of no use here.
    ranks = torch.nn.parallel.DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)
    run = torch.compile(ranks) if "compile" in mode else ranks
    last_argument = case["model"]["context"] if text else last
    batches = list((text_batches if text else image_batches)(folder, case["batch"], rank, int(epochs), last_argument))
    for x, y in batches[:WARM]:  # compiles, and lets DDP arrange its buckets; changes no weight
        torch.nn.functional.cross_entropy(run(x).flatten(0, -2), y.flatten()).backward()
        optimizer.zero_grad(set_to_none=True)
    losses = []
    dist.barrier()
    began = time.perf_counter()
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(run(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    seconds = time.perf_counter() - began
    mean = torch.stack(losses)
    dist.all_reduce(mean)
    return {"seconds": seconds, "losses": (mean / 2).tolist()}


def sum_of(rank, count, rounds):
    import torch
    import torch.distributed as dist

    seconds = []
    for _ in range(WARM + rounds):
        data = torch.full((count,), rank + 1.0)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(data)
        took = torch.tensor(time.perf_counter() - began)
        assert data[-1] == 3
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        seconds.append(took.item())
    return {"seconds": statistics.median(seconds[WARM:])}


def main():
    import torch
    import torch.distributed as dist

    folder, rank, what, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(rank), world_size=2)
    out = train(folder, int(rank), *arguments) if what == "train" else sum_of(int(rank), *map(int, arguments))
    if rank == "0":
        with open(f"{folder}/answer.json", "w") as answer:
            json.dump(out, answer)
    dist.barrier()
    os._exit(0)  # to take the group down may abort: a thread of Gloo is still in it


if __name__ == "__main__":
    main()
