"""Where bars begin, and that a plot is drawn the same each time."""

import pytest

from fives_tf.bench.plots import FEW, HEIGHT, NAMES, Panel, Plot, draw, make_figure


def lowest(kind):
    panel = Panel("log", {"one": [(0.80, 0.01)], "other": [(0.82, 0.02)], "failed": []})
    (axis,) = make_figure(Plot(kind, "title", "", "y", [panel])).axes
    assert [bar.get_height() for bar in axis.patches] == [0.80, 0.82]
    low, high = axis.get_ylim()
    assert high > 0.84
    return low


def test_bars_begin_at_0_unless_they_are_cut():
    assert lowest("bars") == 0
    assert 0.7 < lowest("cut_bars") < 0.79


@pytest.mark.parametrize(("count", "rotation"), [(FEW, 30), (FEW + 1, 90)])
def test_many_names_stand_upright_and_have_room_for_that(count, rotation):
    panel = Panel("log", {f"bar {number}": [(0.8, 0.0)] for number in range(count)})
    figure = make_figure(Plot("bars", "title", "", "y", [panel]))
    (axis,) = figure.axes
    assert {label.get_rotation() for label in axis.get_xticklabels()} == {rotation}
    assert figure.get_figheight() == pytest.approx(HEIGHT + (NAMES if count > FEW else 0))


def test_dollar_signs_in_a_name_are_no_formula():
    panel = Panel(r"my$\alpha^{$x", {"$one": [(0.8, 0.01)], "o_{$": [(0.8, 0.01)]})
    assert r"\alpha" in draw(Plot("bars", "$title_{", "", "y", [panel]))["svg"].decode()


def test_a_plot_gives_the_same_files_each_time():
    plot = Plot("bars", "title", "", "y", [Panel("log", {"one": [(0.8, 0.01)]})])
    assert draw(plot) == draw(plot)
