"""A trace in the terminal and as a figure."""

import bertscope
import numpy as np
import pytest
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope_workbench.command.views.trace import print_trace
from rich.console import Console

from tests.support.traces import assembler, effect, end, of, read, start

VALUES = np.array([[0.08, 7.6, -0.4, 0.0], [0.2, 4.0, 6.4, 0.0], [0.0, 0.0, 8.0, 0.0]])


def grid(values=VALUES, **given):
    effects = [of(effect(layer, position + 1, float(value))) for (layer, position), value in np.ndenumerate(values)]
    return read([start(len(effects), **given), *effects, end()], assembler()).end()


def paths(count=6):
    receivers = [
        ablation_sites_pb2.PathReceiver(part=ablation_sites_pb2.PathReceiver.PART_KEY, layer=3, head=head) for head in range(4)
    ]
    sent = [
        of(effect(0, None, float(head), unit=head, count=count, receiver=receiver, site=site_pb2.SITE_HEAD_OUTPUT))
        for head, receiver in enumerate(receivers)
    ]
    return read([start(4, pairs=count, positions=0), *sent, end()], assembler(count, paths=True)).end()


def printed(found, width=100, top=14):
    screen = Console(width=width, record=True, markup=False, emoji=False, highlight=False, color_system=None, file=None)
    with screen.capture() as captured:
        print_trace(screen, found, top)
    return captured.get()


def test_a_map_has_the_strongest_marked():
    lines = printed(grid()).splitlines()
    assert lines[0] == "states put into the corrupted run, models/m"
    assert lines[1] == 'logit of "are" minus that of "is": clean +4.000, corrupted -4.000'
    assert lines[3].split() == ["layer", "0", "1", "2"]
    assert [line.split() for line in lines[4:8]] == [
        ["The", "0.01", "0.03", "0.00"],
        ["keys", "*0.95", "0.50", "0.00"],
        ["[MASK]", "-0.05", "*0.80", "*1.00"],
        ["here", "0.00", "0.00", "0.00"],
    ]
    assert lines[8] == "0.5 s, 21 layer passes (36 without shared layers)"


def test_a_narrow_screen_has_digits():
    lines = printed(grid(), width=20).splitlines()
    assert ["[MASK]", "0", "7", "9"] in [line.split() for line in lines]


def test_paths_are_a_list_with_intervals():
    text = printed(paths(), top=2)
    assert "paths put into the corrupted run, 6 pairs, models/m" in text
    assert "the 2 strongest, of 4; chosen on the pairs that they are measured on" in text
    rows = [line.split() for line in text.splitlines() if "->" in line]
    assert [row[1:6] for row in rows] == [
        ["0:3", "->", "key", "3:3", "+0.375"],
        ["0:2", "->", "key", "3:2", "+0.250"],
    ]
    assert rows[0][-1] == "6"
    assert "95 % interval" in text
    assert "95 % interval" not in printed(paths(2))


def test_without_another_run_there_are_differences():
    found = grid(direction=0, corrupted=4.0)
    assert "states changed, models/m" in printed(found)
    assert "corrupted" not in printed(found)


@pytest.mark.parametrize("dark", [False, True])
def test_figures(tmp_path, dark):
    figure = grid().plot(dark=dark)
    (axes, _) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["0.95", "-0.05", "0.50", "0.80", "1.00"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["The", "keys", "[MASK]", "here"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1", "2"]
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array(), VALUES / 8)
    bertscope.save_trace(paths(), tmp_path / "paths.svg", dark=dark)
    assert (tmp_path / "paths.svg").stat().st_size > 1000
    bars = paths().plot(dark=dark).axes[0]
    assert [bar.get_width() for bar in bars.patches] == [0.375, 0.25, 0.125, 0.0]
    assert bars.get_yticklabels()[0].get_text() == "heads 0:3 -> key 3:3"
