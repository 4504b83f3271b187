"""Lists in shared virtual memory, whose pointers the host makes, a kernel makes, or both."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same
from tests.programs._svm import from_svm, has_svm, reaches, to_svm

NEEDS = has_svm
KERNELS: dict[str, str] = {
    "sl_link": "split",
    "sl_walk": "split",
    "sl_through": "split",
    "sl_push": "whole",
    "sl_tree": "split",
}

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

typedef struct node { global struct node *next; int value; int seen; } node;

kernel void sl_link(global node *nodes, global const int *order, int count)
{
    int i = get_global_id(0);
    nodes[order[i]].next = i + 1 < count ? &nodes[order[i + 1]] : 0;
    nodes[order[i]].value = 3 * i + 1;
}

kernel void sl_walk(global node *nodes, global int *sums, int steps)
{
    int i = get_global_id(0), sum = 0;
    global node *at = &nodes[i];
    for (int k = 0; k < steps && at; k++, at = at->next)
        sum += at->value * (k + 1);
    sums[i] = sum;
}

/* Addresses as numbers; what they point to is no argument. */
kernel void sl_through(global const ulong *heads)
{
    global node *at = (global node *)heads[get_global_id(0)];
    at->seen += at->value + (at->next ? at->next->value : 0);
}

kernel void sl_push(global ulong *top, global node *nodes)
{
    global node *own = &nodes[get_global_id(0)];
    own->next = (global node *)atom_xchg((volatile global ulong *)top, (ulong)own);
}

typedef struct tree { global struct tree *low, *high; int key, hits; } tree;

kernel void sl_tree(global const int *keys, global tree *root, global int *depths)
{
    int i = get_global_id(0), depth = 0;
    global tree *at = root;
    while (at && at->key != keys[i]) {
        at = keys[i] < at->key ? at->low : at->high;
        depth++;
    }
    depths[i] = at ? depth : -1;
    if (at)
        atomic_inc(&at->hits);
}
"""
NODE = np.dtype([("next", np.uint64), ("value", np.int32), ("seen", np.int32)])
TREE = np.dtype([("low", np.uint64), ("high", np.uint64), ("key", np.int32), ("hits", np.int32)])
COUNT = 960


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Addresses differ from device to device: what is compared are values and places in regions."""
    link, walk, through, push, tree = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(7)
    order = random.permutation(COUNT).astype(np.int32)

    # By a kernel, followed by a kernel and by the host.
    nodes = to_svm(ctx, queue, np.zeros(COUNT, NODE))
    sums = to_svm(ctx, queue, np.zeros(COUNT, np.int32))
    order_svm = to_svm(ctx, queue, order)
    link.set_args(nodes, order_svm, np.int32(COUNT))
    cl.enqueue_nd_range_kernel(queue, link, (COUNT,), (16,))
    walk.set_args(nodes, sums, np.int32(9))
    cl.enqueue_nd_range_kernel(queue, walk, (COUNT,), (16,))
    linked = from_svm(queue, nodes, np.zeros(COUNT, NODE))
    places = (linked["next"] - np.uint64(nodes.svm_ptr)) // np.uint64(NODE.itemsize)
    same(places[order[:-1]], order[1:].astype(np.uint64), "next")
    assert linked["next"][order[-1]] == 0
    values = 3 * np.arange(COUNT + 9) + 1
    values[COUNT:] = 0
    expected = np.zeros(COUNT, np.int32)
    expected[order] = [sum(values[i + k] * (k + 1) for k in range(9)) for i in range(COUNT)]
    walked = from_svm(queue, sums, expected)
    same(walked, expected, "sums")

    # By the host, in another region than what they point to; twice, as a program's steps are.
    picked = random.permutation(COUNT)[: COUNT // 2]
    heads = to_svm(ctx, queue, np.uint64(nodes.svm_ptr) + (NODE.itemsize * picked).astype(np.uint64))
    through.set_args(heads)
    reaches(through, [nodes])
    for _ in range(2):
        cl.enqueue_nd_range_kernel(queue, through, (COUNT // 2,), (8,))
    seen = from_svm(queue, nodes, linked)["seen"]

    # Atomics in shared memory, one after the other where their results are used.
    top = to_svm(ctx, queue, np.zeros(1, np.uint64))
    push.set_args(top, nodes)
    cl.enqueue_nd_range_kernel(queue, push, (COUNT,), (16,))
    pushed, at, found = (
        from_svm(queue, nodes, linked),
        int(from_svm(queue, top, np.zeros(1, np.uint64))[0]),
        [],
    )
    while at:
        found.append((at - nodes.svm_ptr) // NODE.itemsize)
        at = int(pushed["next"][found[-1]])
    assert sorted(found) == list(range(COUNT)), "every node is in the list once"

    # A tree by the host; its root is an argument, the rest is reached.
    keys = random.permutation(200).astype(np.int32)
    built = np.zeros(200, TREE)
    trees = to_svm(ctx, queue, built)
    grow(built, keys, trees.svm_ptr)
    with trees.map_rw(queue) as mapped:
        mapped[:] = built.view(np.uint8)
    asked = random.integers(-20, 220, COUNT).astype(np.int32)
    asked_svm, depths = to_svm(ctx, queue, asked), to_svm(ctx, queue, np.zeros(COUNT, np.int32))
    tree.set_args(asked_svm, trees, depths)
    cl.enqueue_nd_range_kernel(queue, tree, (COUNT,), (16,))
    hits = from_svm(queue, trees, built)["hits"]
    same(hits, np.array([np.sum(asked == key) for key in built["key"]], np.int32), "hits")
    return {
        "sums": walked,
        "seen": seen,
        "places": places[order[:-1]],
        "depths": from_svm(queue, depths, asked),
        "hits": hits,
    }


def grow(built: np.ndarray, keys: np.ndarray, address: int) -> None:
    """Put keys into a binary tree whose nodes are at ``address``."""
    for number, key in enumerate(keys):
        built["key"][number] = key
        at = 0
        while number:
            side = "low" if key < built["key"][at] else "high"
            below = int(built[side][at])
            if not below:
                built[side][at] = address + number * TREE.itemsize
                break
            at = (below - address) // TREE.itemsize
