"""A trace in the terminal and as a figure."""

import numpy as np
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope_workbench.command.views.trace import print_trace

from tests.support.stored_outputs import printed
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


def test_traces(stored) -> None:
    small = grid(VALUES / 20, direction=0, corrupted=4.0)
    stored(
        printed=printed(print_trace, grid(), 14),
        narrow=printed(print_trace, grid(), 14, width=20),
        without_another_run=printed(print_trace, small, 14),
        zeros=printed(print_trace, grid(0 * VALUES), 14),
        paths=printed(print_trace, paths(), 2),
        without_intervals=printed(print_trace, paths(2), 2),
        figure=grid().plot(),
        dark=grid().plot(dark=True),
        figure_of_paths=paths().plot(),
        dark_paths=paths().plot(dark=True),
    )
