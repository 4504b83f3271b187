"""How the kernels of this folder are launched, by file and name.

A launch: global size, local size, arguments, and perhaps a global offset.  Arguments: ``B(n)`` is a buffer of
n ints, ``U(n)`` an unsigned and ``H(n)`` a short value, ``L(n)`` local memory of n bytes, ``V(a, b, ...)``
several ints as one value, ``I(n)`` an int, ``F(x)`` a float.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from sdi.ndrange import NDRange
from tests.sampling.checking import Argument, Launch

FOLDER = Path(__file__).parent


def B(ints: int) -> Argument:  # noqa: N802
    """A buffer, on a boundary that every vector type is happy with."""
    return np.zeros(4 * ints, np.uint8)


def I(value: int) -> Argument:  # noqa: N802, E743
    """An int."""
    return struct.pack("<i", value)


def U(value: int) -> Argument:  # noqa: N802
    """A uint."""
    return struct.pack("<I", value)


def H(value: int) -> Argument:  # noqa: N802
    """A short."""
    return struct.pack("<h", value)


def F(value: float) -> Argument:  # noqa: N802
    """A float."""
    return struct.pack("<f", value)


def L(nbytes: int) -> Argument:  # noqa: N802
    """Local memory."""
    return nbytes


def V(*values: int) -> Argument:  # noqa: N802
    """Several ints as one value."""
    return struct.pack(f"<{len(values)}i", *values)


def launch(size: object, local: object, arguments: object, offset: object = None) -> Launch:
    """A launch from short forms."""
    sizes = size if isinstance(size, tuple) else (size,)
    locals_ = local if isinstance(local, tuple) else (local,)
    starts = offset if isinstance(offset, tuple) else (offset or 0,) * len(sizes)

    def three(values: tuple[object, ...], rest: int) -> tuple[int, int, int]:
        x, y, z = (*(int(str(v)) for v in values), *(rest,) * (3 - len(values)))
        return (x, y, z)

    assert isinstance(arguments, list)
    return Launch(NDRange(len(sizes), three(starts, 0), three(sizes, 1), three(locals_, 1)), tuple(arguments))


LAUNCHES: dict[str, dict[str, list[Launch]]] = {
    "arrays": {
        "neighbours": [launch(16, 4, [B(80)])],
        "offsets": [launch(16, 4, [B(80)])],
        "two_dimensions": [launch(16, 4, [B(128), I(n)]) for n in (16, 100)],
        "rows_by_pointer": [launch(16, 4, [B(80), I(n)]) for n in (0, 6, 16)],
        "planes_by_pointer": [launch((3, 4, 4), (3, 1, 1), [B(48), B(60)])],
        "rows_in_other_words": [launch(16, 4, [B(104), I(n)]) for n in (0, 5)],
        "own_rows_by_pointer": [launch(16, 4, [B(128)])],
        "item_by_data": [launch(16, 4, [B(80), B(16)])],
        "item_by_scalar": [launch(16, 4, [B(80), I(n)]) for n in (0, 1)],
        "items_by_branch": [launch(16, 4, [B(80), I(n)]) for n in (0, 6, 16)],
        "through_pointers": [launch(16, 4, [B(128)])],
        "one_of_two": [launch(16, 4, [B(80), I(n)]) for n in (0, 6, 16)],
        "returned_early": [launch(16, 4, [B(80)])],
        "other_types": [launch(16, 4, [B(80)])],
        "changed_in_loop": [launch(16, 4, [B(128), I(n)]) for n in (0, 1, 2, 5)],
        "pointer_in_loop": [launch(16, 4, [B(80), I(n)]) for n in (0, 1, 4)],
        "by_builtins": [launch(16, 4, [B(80), B(16)])],
        "swapped_each_time": [launch(16, 4, [B(80)])],
        "compound": [launch(16, 4, [B(80), I(n)]) for n in (0, 16)],
        "turns": [launch(16, 4, [B(160), I(n)]) for n in (0, 1, 2, 4)],
        "moved_pointer": [launch(16, 4, [B(160), I(n)]) for n in (0, 1, 3)],
        "moved_twice": [launch(16, 4, [B(160), I(n)]) for n in (2, 5)],
        "moved_in_structure": [launch(16, 4, [B(160), I(n)]) for n in (1, 4)],
        "text_in_braces": [launch(16, 4, [B(160)])],
        "designated": [launch(16, 4, [B(160)])],
        "address_as_number": [launch(16, 4, [B(160), I(n)]) for n in (0, 3)],
        "whole_by_member": [launch(16, 4, [B(160)])],
    },
    "affine": {
        "copy": [launch(64, 8, [B(64), B(64)]), launch(40, 4, [B(80), B(80)], 16)],
        "copy_guarded": [launch(64, 8, [B(64), B(64), I(n)]) for n in (0, 1, 45, 64)],
        "copy_early": [launch(64, 8, [B(64), B(64), U(n)]) for n in (0, 37, 64)],
        "reversed": [launch(64, 8, [B(64), B(64), I(n)]) for n in (45, 64)],
        "every_third": [launch(32, 4, [B(100), I(n)]) for n in (0, 2)],
        "by_group": [launch(64, 8, [B(8)]), launch(64, 8, [B(9)], 3)],
        "leader": [launch(64, 8, [B(64), B(8), I(n)]) for n in (30, 64)],
        "last_of_group": [launch(64, 8, [B(64)]), launch(64, 8, [B(80)], 5)],
        "matrix": [launch((16, 12), (4, 2), [B(192), B(192), I(w), I(h)]) for w, h in ((16, 12), (13, 9))],
        "matrix_early": [
            launch((16, 12), (4, 2), [B(192), B(192), I(w), I(h)]) for w, h in ((16, 12), (13, 9))
        ],
        "turned": [launch((16, 12), (4, 2), [B(192), B(192), I(w), I(h)]) for w, h in ((16, 12), (13, 9))],
        "interior": [launch((16, 12), (4, 2), [B(192), B(192), I(16), I(12)])],
        "border": [launch((16, 12), (4, 2), [B(192), I(w), I(h)]) for w, h in ((16, 12), (13, 9))],
        "not_five": [launch(64, 8, [B(64)])],
        "lower_triangle": [launch((16, 16), (4, 2), [B(256), I(n)]) for n in (16, 11)],
        "diagonal": [launch((16, 16), (4, 2), [B(256), I(n)]) for n in (16, 11)],
        "volume": [launch((8, 6, 4), (2, 3, 1), [B(192), B(192), I(8), I(6)])],
        "both_sides": [launch(64, 8, [B(64), B(64)])],
        "one_side": [launch(64, 8, [B(64), B(64)])],
        "zero_then_maybe": [launch(64, 8, [B(64), B(64)])],
        "flagged": [launch(64, 8, [B(64), I(n)]) for n in (0, 3)],
        "joined": [launch(64, 8, [B(80), I(n)]) for n in (20, 64)],
        "nested_returns": [launch(64, 8, [B(200), I(40), I(m)]) for m in (10, 50)],
        "offset_ids": [launch(64, 8, [B(64)], 7)],
        "pointers": [launch(16, 4, [B(200), I(n)]) for n in (16, 20)],
        "choice_of_pointer": [launch(16, 4, [B(16), B(16), I(n)]) for n in (0, 1)],
        "data_choice_of_pointer": [launch(16, 4, [B(16), B(16), B(4)])],
        "chars": [launch(64, 8, [B(40)])],
        "cast_to_bytes": [launch(64, 8, [B(20)])],
        "switched": [launch(32, 8, [B(128), I(n)]) for n in (0, 1, 2, 7)],
    },
    "floats": {
        "halves": [launch(32, 4, [B(64), I(n)]) for n in (0, 10, 13, 64)],
        "scaled_count": [launch(32, 4, [B(32), F(x)]) for x in (-1.0, 0.0, 0.5, 0.7, 1.3, 1e30, 1e-40)],
        "rounded_up": [launch(16, 4, [B(256), I(n)]) for n in (0, 3, 8, 20, 61)],
        "rounded_up_in_doubles": [launch(16, 4, [B(256), I(n)]) for n in (0, 3, 8, 20, 61)],
        "rounded_down": [launch(16, 4, [B(256), F(x)]) for x in (0.0, 2.5, 3.5, 3.999, 7.0, 0.49999997)],
        "side_of_square": [launch(16, 4, [B(256), I(n)]) for n in (0, 2, 16, 17, 80)],
        "levels": [launch(16, 4, [B(256), I(n)]) for n in (1, 2, 12, 64)],
        "radix": [launch(16, 4, [B(256), I(r), I(i)]) for r, i in ((2, 0), (2, 3), (4, 2), (3, 1))],
        "radix_of_counter": [launch(16, 4, [B(256), I(r)]) for r in (2, 3)],
        "bits_of_it": [launch(16, 4, [B(128), F(x), I(0x40490FDB)]) for x in (0.0, 1.5, 1e-45)],
        "by_compound": [launch(16, 4, [B(128), F(x), I(n)]) for x, n in ((0.5, 3), (2.25, 0), (1.0, 8))],
        "changed_by_loop": [launch(16, 4, [B(128), F(x)]) for x in (0.0, 1.5)],
        "of_ids": [launch(16, 4, [B(128), F(x)]) for x in (0.0, 1.5)],
        "chosen_by_scalar": [launch(16, 4, [B(64), F(x), I(n)]) for x, n in ((2.5, 3), (2.5, 4))],
        "by_helper": [launch(16, 4, [B(64), F(x)]) for x in (0.0, 1.5, 2.3)],
        "by_address": [launch(16, 4, [B(64), F(1.0)])],
        "by_structure": [launch(16, 4, [B(64), F(x) + I(7)]) for x in (1.0, 2.75)],  # type: ignore[operator]
        "converted": [launch(16, 4, [B(256), F(x)]) for x in (0.0, 2.5, 3.75)],
        "converted_otherwise": [launch(16, 4, [B(256), F(x)]) for x in (0.0, 2.5, 3.75)],
        "of_constants": [launch(16, 4, [B(512)])],
        "of_sizes": [launch(size, 4, [B(64)]) for size in (16, 20)],
        "out_of_range": [launch(16, 4, [B(512), F(x)]) for x in (0.0, 1.0, 2.0, 1e20)],
        "fused": [
            launch(16, 4, [B(64), F(x), F(y), F(z)])
            for x, y, z in ((0.1, 10.0, 1.0), (1.5, 2.0, 0.5), (16777217.0, 1.0, -16777210.0))
        ],
    },
    "loops": {
        "until_it_breaks": [launch(16, 4, [B(160), I(n)]) for n in (0, 3, 8)],
        "stages_of_rows": [launch(16, 4, [B(128), B(128), I(m)]) for m in (1, 2, 3)],
        "powers_up_to": [launch(8, 2, [B(2048), I(n)]) for n in (4, 6, 13)],
        "unless_it_ends_before": [launch(16, 4, [B(256)])],
        "wider_each_time": [launch(16, 4, [B(500), I(n)]) for n in (1, 8, 40)],
        "dot_rows": [launch(16, 4, [B(16 * 9), B(9), B(16), I(n)]) for n in (9, 0)],
        "grid_stride": [launch(32, 8, [B(100), B(100), I(n)]) for n in (100, 64, 20, 0)],
        "grid_stride_while": [launch(32, 8, [B(100), B(100), U(n)]) for n in (100, 20)],
        "descending": [launch(16, 4, [B(160), I(n)]) for n in (10, 0)],
        "descending_unsigned": [launch(16, 4, [B(160), U(n)]) for n in (10, 0)],
        "countdown": [launch(16, 4, [B(160), I(n)]) for n in (10, 0)],
        "read_before_break": [launch(16, 4, [B(160), B(16), I(n)]) for n in (5, 0, -1)],
        "read_in_condition": [launch(16, 4, [B(160), B(16), I(n)]) for n in (5, 0, -1)],
        "write_in_condition": [launch(16, 4, [B(160), I(n)]) for n in (5, 0, -1)],
        "write_in_condition_and_leave": [launch(16, 4, [B(160), B(160), I(n)]) for n in (5, 0, -1)],
        "signed_character": [launch(16, 4, [B(16)])],
        "pointer_at_break": [launch(16, 4, [B(16), B(16), I(n)]) for n in (4, 0)],
        "pointer_in_condition": [launch(16, 4, [B(16), B(16), I(n)]) for n in (4, 0)],
        "do_and_leave": [launch(16, 4, [B(16), B(16), I(n)]) for n in (4, 0)],
        "pointer_in_structure": [launch(16, 4, [B(16), B(16), I(n)]) for n in (4, 0)],
        "structure_in_switch": [launch(16, 4, [B(16), B(16), I(n)]) for n in (4, 0)],
        "do_and_leave_at_first": [launch(16, 4, [B(160), I(n)]) for n in (5, 0)],
        "step_two": [launch(8, 4, [B(400), I(30), I(s)]) for s in (1, 2, 7)],
        "triangle_loop": [launch(16, 4, [B(256), I(16)])],
        "band": [launch(16, 4, [B(256), I(16), I(b)]) for b in (0, 3, 40)],
        "block_of_each": [launch(16, 4, [B(256), I(n), I(c)]) for n, c in ((250, 16), (100, 7), (0, 3))],
        "up_to_the_greatest": [launch(16, 4, [B(272), I(n), I(c)]) for n, c in ((5, 3), (0, 12), (-4, 20))],
        "either_bound": [launch(16, 4, [B(272), I(n), I(c)]) for n, c in ((5, 3), (0, 12), (-4, 20))],
        "until_equal_or_less": [launch(16, 4, [B(272), I(n), I(c)]) for n, c in ((5, 3), (0, 0), (7, 7))],
        "pointer_behind_pointer": [launch(16, 4, [B(16), B(16), I(n)]) for n in (1, 2, 4)],
        "read_behind_pointer": [launch(16, 4, [B(16), B(16), B(16), I(n)]) for n in (1, 2, 4)],
        "clamped_guards": [launch(16, 4, [B(64), I(n), I(m)]) for n, m in ((9, 4), (3, 12), (20, 2), (2, 2))],
        "rest_of_row": [launch(16, 4, [B(256), I(16), I(k)]) for k in (0, 9, 15, 20)],
        "nested": [launch(8, 2, [B(240), B(240), I(6), I(5)])],
        "secondary": [launch(8, 2, [B(100), B(100), I(7), I(s)]) for s in (1, 8)],
        "conditional_induction": [launch(8, 2, [B(100), B(100), I(7)])],
        "with_continue": [launch(8, 2, [B(100), B(100), I(7)])],
        "skipping_continue": [launch(8, 2, [B(100), I(7)])],
        "with_break": [launch(8, 2, [B(100), B(100), I(7)])],
        "plain_break": [launch(8, 2, [B(100), I(7), I(n)]) for n in (30, 100)],
        "write_then_break": [launch(8, 2, [B(100), I(7), I(n)]) for n in (3, 100)],
        "return_in_loop": [launch(8, 2, [B(100), B(100), I(7)])],
        "return_at_bound": [launch(8, 2, [B(64), I(n)]) for n in (0, 19, 64)],
        "return_in_inner_loop": [launch(8, 2, [B(128), I(5), I(m)]) for m in (0, 3, 7, 20)],
        "return_after_write": [launch(8, 2, [B(64), I(n)]) for n in (0, 19, 64)],
        "return_and_break": [launch(8, 2, [B(64), I(n), I(m)]) for n, m in ((4, 3), (20, 3), (9, 9))],
        "return_at_one": [launch(8, 2, [B(64), I(n)]) for n in (0, 3, 9)],
        "return_and_continue": [launch(8, 2, [B(64), I(n)]) for n in (0, 3, 9)],
        "return_in_switch": [launch(8, 2, [B(64), I(n), I(m)]) for n in (3, 9) for m in (0, 1, 2)],
        "return_of_helper": [launch(8, 2, [B(64), I(n)]) for n in (0, 3, 9)],
        "return_of_all": [launch(8, 2, [B(64), I(n)]) for n in (0, 3, 9)],
        "return_of_do": [launch(8, 2, [B(64), I(n)]) for n in (0, 3, 9)],
        "do_once_more": [launch(8, 2, [B(100), I(n)]) for n in (7, 0)],
        "until_equal": [launch(8, 2, [B(100), I(n)]) for n in (7, 0)],
        "doubling": [launch(8, 2, [B(200), I(n)]) for n in (20, 1)],
        "halving": [launch(32, 8, [B(32)]), launch(20, 5, [B(32)])],
        "data_bound": [launch(16, 4, [B(17), B(128)])],
        "after_loop": [launch(8, 2, [B(600), I(n)]) for n in (0, 10, 12)],
        "unrolled_table": [launch(8, 2, [B(600)])],
        "changed_bound": [launch(8, 2, [B(100), I(7)])],
        "swapped": [launch(8, 2, [B(8), B(8), I(n)]) for n in (1, 2)],
        "both_in_loop": [launch(8, 2, [B(100), B(100), I(7)])],
    },
    "pointers": {
        "arrays_in_arguments": [
            launch(16, 4, [B(600), V(3, *sizes, 1 << 16, 9)])
            for sizes in ((8, 2, 16), (16, 1, 5), (9, 0, 16))
        ],
        "arrays_in_structures": [launch(16, 4, [B(600), V(1, 2, 3, 4, 1 << 16, 9), I(n)]) for n in (3, 6)],
        "stored_over_an_array": [launch(16, 4, [B(1600)])],
        "arrays_in_changed_structures": [
            launch(16, 4, [B(600), V(1, 2, 3, 4, 1 << 16, 9), I(n)]) for n in (0, 1, 4)
        ],
        "to_the_end": [launch(16, 4, [B(80), I(n)]) for n in (0, 1, 5, -2)],
        "until_equal": [launch(16, 4, [B(80), I(n)]) for n in (0, 1, 5)],
        "backwards": [launch(16, 4, [B(80), I(n)]) for n in (0, 1, 5)],
        "by_twos": [launch(16, 4, [B(128), I(n)]) for n in (-1, 0, 1, 4, 5)],
        "with_the_last": [launch(16, 4, [B(64), I(n)]) for n in (-1, 0, 5, 12)],
        "which_end": [launch(16, 4, [B(64), I(n)]) for n in (0, 7, 16)],
        "by_distance": [launch(16, 4, [B(64), B(128), I(n)]) for n in (0, 3)],
        "two_objects": [launch(16, 4, [B(16), B(16)])],
        "end_by_data": [launch(16, 4, [B(128), B(16)])],
        "begin_by_data": [launch(16, 4, [B(128), B(16)])],
        "put_elsewhere": [launch(16, 4, [B(64), B(64), I(n)]) for n in (0, 2, 3, 4, 7)],
        "set_back": [launch(16, 4, [B(64), I(n)]) for n in (0, 2, 7)],
        "given_away": [launch(16, 4, [B(64)])],
        "wraps": [launch(16, 4, [B(64), U(n)]) for n in (0, 3, 9)],
        "wraps_narrow": [launch(16, 4, [B(264), I(n)]) for n in (0, 30)],
        "never": [launch(16, 4, [B(64), I(n)]) for n in (0, 3)],
        "own_items": [launch(16, 4, [B(80)])],
        "one_by_condition": [launch(16, 4, [B(40), B(40), I(n)]) for n in (0, 1, 2, 3)],
        "moved_choice": [launch(16, 4, [B(80), B(80), I(n)]) for n in (0, 1, 2, 3)],
        "one_of_three": [launch(16, 4, [B(32), B(32), B(32), I(n)]) for n in (0, 1, 2, 4)],
        "one_by_item": [launch(16, 4, [B(32), B(32), I(n)]) for n in (0, 6, 16)],
        "one_by_data": [launch(16, 4, [B(48), B(48), B(16)])],
        "one_in_loop": [launch(16, 4, [B(48), B(48), I(n)]) for n in (0, 1, 2, 5)],
        "turned_about": [launch(16, 4, [B(32), B(32), I(n)]) for n in (0, 1, 2)],
        "by_view": [launch(16, 4, [B(160), I(n)]) for n in (0, 1, 3)],
        "view_in_loop": [launch(16, 4, [B(136), B(16), I(n)]) for n in (0, 1, 2, 6)],
        "view_by_data": [launch(16, 4, [B(48), B(48), B(16)])],
        "view_by_bytes": [launch(16, 4, [B(64)])],
        "nested_view": [launch(16, 4, [B(128)])],
        "view_with_union": [launch(16, 4, [B(128)])],
        "several": [launch(16, 4, [B(64), B(64), I(n)]) for n in (0, 8)],
        "several_by_index": [launch(16, 4, [B(48), B(48), B(16), I(n)]) for n in (0, 1)],
        "several_in_loop": [launch(16, 4, [B(80), B(80), I(n)]) for n in (0, 1, 2, 3)],
        "several_ends": [launch(16, 4, [B(128), I(n)]) for n in (0, 1, 5)],
        "pointers_to_pointers": [launch(16, 4, [B(240), I(n)]) for n in (0, 1, 3)],
        "views_in_views": [launch(16, 4, [B(80)])],
        "parts_of_views": [launch(16, 4, [B(80), B(80), I(n)]) for n in (0, 1, 5)],
        "half_a_pointer": [launch(16, 4, [B(16), B(16)])],
    },
    "quasi": {
        "remainder_twice": [launch(40, 5, [B(320), B(320), I(1)])],
        "truth_as_index": [launch(16, 4, [B(64), B(64), I(n)]) for n in (7, 0)],
        "either_of_two": [launch(16, 4, [B(160), I(n)]) for n in (2, 0)],
        "flat_to_matrix": [launch(60, 6, [B(120), I(w)]) for w in (10, 7)],
        "there_and_back": [launch(60, 6, [B(120), I(w)]) for w in (10, 7)],
        "clamped": [launch(64, 8, [B(64), B(64), I(64)])],
        "clamped_by_choice": [launch(64, 8, [B(64), B(64), I(64)])],
        "store_clamped": [launch(64, 8, [B(64), I(n)]) for n in (64, 20)],
        "even_odd": [launch(64, 8, [B(64)])],
        "butterfly": [launch(64, 8, [B(128), I(bit)]) for bit in (0, 2, 5)],
        "tiles": [launch((16, 12), (4, 2), [B(192), I(16)])],
        "negative_division": [launch(32, 8, [B(100), I(c)]) for c in (9, 16)],
        "wraps_below": [launch(32, 8, [B(100), U(n)]) for n in (10, 100)],
        "guarded_minus_one": [launch(32, 8, [B(100)])],
        "narrow": [launch(32, 8, [B(256)])],
        "narrow_short": [launch(32, 8, [B(256), H(n)]) for n in (100, -10)],
        "signed_unsigned": [launch(32, 8, [B(256), I(n)]) for n in (10, -1)],
        "product_of_ids": [launch((8, 8), (2, 2), [B(100)])],
        "parity_of_group": [launch(64, 8, [B(64)])],
        "big_mask": [launch(64, 8, [B(64), I(m)]) for m in (-8, 7, 42, 0)],
        "variable_shift": [launch(64, 8, [B(64)])],
        "multiplied24": [launch((8, 8), (2, 2), [B(100), I(10)])],
        "absolute": [launch(32, 8, [B(64), I(c)]) for c in (0, 13)],
        "not_zero": [launch(32, 8, [B(64), I(20)])],
        "from_float": [launch(32, 8, [B(64), I(20)])],
        "table_offsets": [launch(32, 8, [B(256), B(64)]), launch(16, 4, [B(256), B(64)], 8)],
        "table_scatter": [launch((8, 6), (4, 2), [B(4 * 20 * 12), I(w)]) for w in (10, 17)],
        "table_of_group": [launch(32 * 8, 32, [B(256), I(3)])],
        "table_from_data": [launch(32, 8, [B(256), B(32)])],
        "radix_4": [launch(64, 8, [B(256), B(256), I(p)]) for p in (1, 4, 16, 64)],
        "red_or_black": [launch((20, 12), (5, 4), [B(240), I(20), I(h), I(c)]) for h, c in ((12, 0), (9, 1))],
        "every_third": [launch(40, 5, [B(400), I(n), I(1)]) for n in (3, 10)],
        "until_a_remainder": [launch(48, 8, [B(500), I(n)]) for n in (2, 7)],
    },
    "shapes": {
        "braces_left_out": [launch(16, 4, [B(200), I(7)])],
        "array_parameters": [launch(16, 4, [B(80), B(64), B(16), L(16)])],
        "four_floats": [launch(16, 4, [B(64), B(64)])],
        "components": [launch(8, 4, [B(64), I(0)])],
        "three_floats": [launch(16, 4, [B(64)])],
        "vector_store": [launch(16, 4, [B(1024), B(1024)])],
        "coordinates": [launch((8, 6), (2, 3), [B(200), I(12)])],
        "int4_of_ids": [launch(8, 4, [B(200), V(2, 3, 4, 5)])],
        "fields": [launch(16, 4, [B(200), I(n)]) for n in (16, 11)],
        "whole_items": [launch(16, 4, [B(100), B(100)])],
        "size_argument": [launch((8, 6), (2, 3), [B(200), V(7, 5, 0)])],
        "helpers": [launch(16, 4, [B(200), I(n)]) for n in (16, 5)],
        "by_pointer": [launch(16, 4, [B(64)])],
        "table": [launch(16, 4, [B(64)])],
        "group_copy": [launch(32, 8, [B(32), B(32), L(32)])],
        "group_copy_strided": [launch(32, 8, [B(64), L(32), U(6)])],
        "reduction": [launch(32, 8, [B(32), B(4), L(32)])],
        "gather": [launch(32, 8, [B(32), B(64), B(32)])],
        "scatter": [launch(32, 8, [B(32), B(64), I(50)])],
        "private_array": [launch(32, 8, [B(64)])],
        "counts": [launch(32, 8, [B(64), B(1)])],
        "increments": [launch(32, 8, [B(100)])],
        "any_dimension": [launch((8, 6), (2, 3), [B(64)])],
        "union_of_words": [launch(32, 8, [B(64), I(3)])],
        "matrix_multiply": [
            launch((12, 8), (4, 4), [B(70), B(90), B(99), I(7), I(11), I(k), L(64), L(64)]) for k in (5, 8)
        ],
    },
    "vectors": {
        "any_beyond": [launch((8, 8), (4, 2), [B(64), V(*size)]) for size in ((8, 8), (5, 3), (0, 4))],
        "all_within": [launch((8, 8), (4, 2), [B(64), V(*size)]) for size in ((7, 7), (5, 3), (-1, 4))],
        "not_all_within": [launch((8, 8), (4, 2), [B(64), U(n)]) for n in (0, 2, 6, 9)],
        "components_of_conditions": [launch((8, 8), (4, 2), [B(80), I(n)]) for n in (4, 6)],
        "chosen_by_components": [launch((8, 8), (4, 2), [B(64), I(n)]) for n in (0, 3, 8)],
        "high_halves": [launch(16, 4, [B(272), U(n)]) for n in (0, 0x40000000, 0xFFFFFFFF)],
        "leading_zeros": [launch(16, 4, [B(272), I(n)]) for n in (1, 5, 200)],
        "nearest": [launch(16, 4, [B(384), I(n)]) for n in (-1, 7, 20)],
    },
}
