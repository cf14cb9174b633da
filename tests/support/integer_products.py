"""Products of 8-bit integers to compare between CPUs: they must be the same numbers."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from bertscope_service.encoders.torch.integer_products import integer_product
from bertscope_service.encoders.torch.quantization import LARGEST, IntegerMatrix

CPU = torch.device("cpu")
SHAPES = [(1, 1, 1), (1, 384, 384), (9, 768, 30), (33, 3072, 64), (2, 5000, 3), (130, 17, 5), (4, 96, 1000)]


def drawn(rows: int, width: int, out: int) -> tuple[torch.Tensor, IntegerMatrix]:
    """Activations between -127 and 127, and a matrix; both have the largest numbers in some rows."""
    rng = np.random.default_rng(rows * width + out)
    steps = rng.uniform(-LARGEST, LARGEST, (rows, width)).astype(np.float32)
    values = rng.integers(-LARGEST, LARGEST + 1, (out, width)).astype(np.int8)
    steps[::3], values[::3] = LARGEST, LARGEST
    steps[1::3], values[1::4] = -LARGEST, -LARGEST
    scales = rng.uniform(1e-3, 1e-1, out).astype(np.float32)
    return torch.from_numpy(steps), IntegerMatrix(torch.from_numpy(values), torch.from_numpy(scales))


def exact(steps: torch.Tensor, matrix: IntegerMatrix) -> torch.Tensor:
    """The product by numpy's 64-bit integers, rounded once to float32 and then scaled."""
    sums = np.rint(steps.numpy()).astype(np.int64) @ matrix.values.numpy().astype(np.int64).T
    return torch.from_numpy(sums.astype(np.float32) * matrix.scales.numpy())


def digest() -> str:
    """The digest of this machine's products, where -0 counts as 0."""
    made = hashlib.sha256()
    for shape in SHAPES:
        steps, matrix = drawn(*shape)
        made.update((integer_product(CPU)(matrix)(steps) + 0.0).numpy().tobytes())
    return made.hexdigest()


def onnx_product() -> float:
    """The largest error of our own int8 graph's product, by ONNX Runtime, for inputs and weights that are integers."""
    import numpy as np
    import onnx
    import torch
    from bertscope_service.compression.onnx.quantize import quantize_int8
    from bertscope_service.encoders.onnx.sessions import Session, SessionSettings

    rng = np.random.default_rng(0)
    x, weight = (rng.choice([-127.0, 127.0, 5.0], size).astype(np.float32) for size in ((9, 256), (256, 64)))
    x[:, 0], weight[0] = 127, 127  # so that a step is 1 in every row and column
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [9, width]) for name, width in (("x", 256), ("y", 64))
    ]
    node = onnx.helper.make_node("MatMul", ["x", "weight"], ["y"])
    graph = onnx.helper.make_graph([node], "product", values[:1], values[1:], [onnx.numpy_helper.from_array(weight, "weight")])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 21)])
    session = Session(quantize_int8(model), SessionSettings(torch.device("cpu"), Path("/"), threads=1))
    found = session.run({"x": torch.from_numpy(x)}, {"y": (9, 64)})["y"].numpy()
    return float(np.abs(found - x.astype(np.float64) @ weight).max())
