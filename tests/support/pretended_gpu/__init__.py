"""A pretended GPU: tensors that say `cuda:N`, compute on the CPU, and obey the rules of a CUDA device.

`driver.install()` comes first in a process, before a tensor is on a GPU; `pytest --pretend-gpu tests/gpu` does it. Beyond what
a run on the CPU shows, it
- raises for operations between devices, with what CUDA says (scalars and indices of the CPU are let through, as there);
- raises for `.numpy()` of a device's tensor;
- holds garbage in the results of non-blocking copies to the host until an event, a stream or the device was waited for;
- counts launches (`recording.Seen`): every operation but views; copies, by how they are done; and waits of the host, `.item()`,
  masks as indices, copies from pageable memory and so on, each with the line of ours that caused it;
- has as much memory as it is told, and can fail for once or for good.

It shows nothing of speed, of kernels' own rounding, or of streams beside the default one.
"""
