"""Lists and trees in shared virtual memory, whose pointers the host makes, a kernel makes, or both."""

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
    "sl_graft": "split",
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

/* Each node puts its address into its parent; the first one has none. */
kernel void sl_graft(global tree *nodes, global const int *keys, global const int *parents)
{
    int i = get_global_id(0);
    nodes[i].key = keys[i];
    if (i) {
        global tree *parent = &nodes[parents[i]];
        if (keys[i] < keys[parents[i]])
            parent->low = &nodes[i];
        else
            parent->high = &nodes[i];
    }
}
"""
NODE = np.dtype([("next", np.uint64), ("value", np.int32), ("seen", np.int32)])
TREE = np.dtype([("low", np.uint64), ("high", np.uint64), ("key", np.int32), ("hits", np.int32)])
COUNT = 960
GRAFTED, ALL = 160, 200
"""Nodes of the tree that a kernel builds, and with those that the host adds."""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Addresses differ from device to device: what is compared are values and places in regions."""
    link, walk, through, push, tree, graft = kernels(ctx, SOURCE, *KERNELS)
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

    # A tree by the host, another by a kernel: of the same keys, so of the same shape.
    keys = random.permutation(ALL).astype(np.int32)
    asked = random.integers(-20, 220, COUNT).astype(np.int32)
    by_host = to_svm(ctx, queue, np.zeros(ALL, TREE))
    with by_host.map_rw(queue) as mapped:
        grow(mapped.view(TREE), keys, by_host.svm_ptr)
    hits, depths = look_up(ctx, queue, tree, by_host, asked)
    same(hits, np.array([np.sum(asked == key) for key in keys], np.int32), "hits")

    by_kernel = to_svm(ctx, queue, np.zeros(ALL, TREE))
    expected_tree = np.zeros(ALL, TREE)
    grow(expected_tree[:GRAFTED], keys, by_kernel.svm_ptr)
    parents = to_svm(ctx, queue, parents_of(expected_tree[:GRAFTED], by_kernel.svm_ptr))
    keys_svm = to_svm(ctx, queue, keys)
    graft.set_args(by_kernel, keys_svm, parents)
    cl.enqueue_nd_range_kernel(queue, graft, (GRAFTED,), (8,))
    same(from_svm(queue, by_kernel, expected_tree), expected_tree, "a tree by a kernel")
    look_up(ctx, queue, tree, by_kernel, asked)
    with by_kernel.map_rw(queue) as mapped:
        mapped.view(TREE)["hits"] = 0
        grow(mapped.view(TREE), keys, by_kernel.svm_ptr, GRAFTED)
    grown = look_up(ctx, queue, tree, by_kernel, asked)
    same(grown[0], hits, "hits in a tree that the host has grown")
    same(grown[1], depths, "depths in a tree that the host has grown")
    return {
        "sums": walked,
        "seen": seen,
        "places": places[order[:-1]],
        "depths": depths,
        "hits": hits,
    }


def look_up(
    ctx: cl.Context, queue: cl.CommandQueue, tree: cl.Kernel, nodes: cl.SVMAllocation, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How often each node was found, and how deep each of ``asked``; the root is an argument."""
    asked_svm, depths = to_svm(ctx, queue, asked), to_svm(ctx, queue, np.zeros(len(asked), np.int32))
    tree.set_args(asked_svm, nodes, depths)
    cl.enqueue_nd_range_kernel(queue, tree, (len(asked),), (16,))
    return from_svm(queue, nodes, np.zeros(ALL, TREE))["hits"], from_svm(queue, depths, asked)


def grow(built: np.ndarray, keys: np.ndarray, address: int, first: int = 0) -> None:
    """Put keys from ``first`` on into a binary tree whose nodes are at ``address``, as far as it has room."""
    for number in range(first, len(built)):
        key = built["key"][number] = keys[number]
        at = 0
        while number:
            side = "low" if key < built["key"][at] else "high"
            below = int(built[side][at])
            if not below:
                built[side][at] = address + number * TREE.itemsize
                break
            at = (below - address) // TREE.itemsize


def parents_of(built: np.ndarray, address: int) -> np.ndarray:
    """By node: the number of the one above."""
    parents = np.zeros(len(built), np.int32)
    for side in ("low", "high"):
        above = np.flatnonzero(built[side])
        parents[(built[side][above].astype(np.int64) - address) // TREE.itemsize] = above
    return parents
