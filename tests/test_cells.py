"""Cells: numbers for facts that guards compare."""

from __future__ import annotations

from sdi.cells import CELLS_MAX, CELLS_RESERVED, ROW, Cells


def test_cells_that_are_given_back_are_given_out_again_as_new() -> None:
    cells = Cells()
    left, cell = cells.num_left, cells.new()
    assert cell >= CELLS_RESERVED and cells.num_left == left - 1
    cells.changed(cell)
    assert cells.at[cell] == 1
    cells.give_back(cell, 0)  # 0 is none
    assert cells.num_left == left and cells.new() == cell and cells.at[cell] == 0


def test_a_fact_that_changes_very_often_has_a_number_all_the_same() -> None:
    cells = Cells()
    cell = cells.new()
    cells.at[cell] = 0xFFFFFFFF
    cells.changed(cell)
    assert cells.at[cell] == 0


def test_rows_lie_side_by_side_and_are_used_again_as_rows() -> None:
    cells = Cells()
    left, first = cells.num_left, cells.new_row()
    assert cells.new() == first + ROW
    cells.changed(first + 1)
    cells.give_back_row(first)
    cells.give_back_row(0)
    assert cells.new_row() == first and list(cells.at[first : first + ROW]) == [0] * ROW
    assert cells.num_left == left - ROW - 1


def test_there_are_so_many_and_no_more() -> None:
    cells = Cells()
    given = [cells.new() for _ in range(CELLS_MAX - CELLS_RESERVED)]
    assert len(set(given)) == len(given) and 0 not in given
    assert (cells.new(), cells.new_row(), cells.num_left) == (0, 0, 0)
