"""The image of the server, built without Docker as a company would: on its own base, from its own index; served and asked."""

import functools
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bertscope
import pytest

from tests.support.images import Images
from tests.support.patience import granted
from tools.deploy.programs import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
BUILT = "localhost/bertscope"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def torch_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PyTorch's build for CPUs, from where pip finds packages beside the index: that of the index has gigabytes of CUDA."""
    folder = tmp_path_factory.mktemp("index")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps", "--dest", str(folder), "torch"]
    done = subprocess.run(command, capture_output=True, timeout=granted(100), check=False)
    wheels = list(folder.glob("torch-*+cpu-*.whl"))
    if done.returncode or not wheels:
        pytest.skip("pip finds no CPU build of PyTorch beside the index (pip config: find-links)")
    return wheels[0]


@pytest.fixture(scope="module")
def index(torch_wheel: Path) -> Iterator[str]:
    """A page of a company's packages."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(torch_wheel.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, torch_wheel: Path, index: str) -> Iterator[Images]:
    """With the image in them."""
    authorities = ssl.get_default_verify_paths().cafile
    with Images(tmp_path_factory.mktemp("images")) as images:
        images.debian("localhost/base", ["python3", "python3-venv", "ca-certificates"])
        images.of_file("localhost/uv", Path(sys.executable).with_name("uv"))
        arguments = {
            "BASE_IMAGE": "localhost/base",
            "UV_IMAGE": "localhost/uv",
            "PYTHON_VERSION": PYTHON,
            "TORCH_BACKEND": "",
            "TORCH": f"torch=={torch_wheel.name.split('-')[1]}",
            "UV_FIND_LINKS": index,
        }
        flags = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        secret = ["--secret", f"id=ca,src={authorities}"] if authorities else []
        ways = ("--isolation", "chroot", "--network", "host", "--format", "docker")
        images.run("build", "--quiet", *ways, *flags, *secret, "--tag", BUILT, str(ROOT))
        yield images


def test_the_image_says_how_it_is_run(images: Images) -> None:
    settings = images.settings(BUILT)
    assert (settings["Entrypoint"], settings["Cmd"] or [], settings["User"]) == (["bertscope-server"], [], "10001:10001")
    assert settings["Healthcheck"]["Test"] == ["CMD", "bertscope-server", "health", "--target", "127.0.0.1:50051"]
    assert not [variable for variable in settings["Env"] if variable.startswith(("UV_", "SSL_", "TORCH"))]


def test_the_image_serves(images: Images) -> None:
    container, port = images.run("from", BUILT), free_port()
    ways = ("--isolation", "chroot", "--network", "host", "--user", "10001:10001")
    serve = ("bertscope-server", "--port", str(port), "--metrics-port", "0", "--runtime", "torch")
    with subprocess.Popen(images.command("run", *ways, container, "--", *serve)) as process:
        try:
            with bertscope.Client(f"127.0.0.1:{port}") as client:
                client.wait_until_serving(300)
                (answer,) = client.fill_mask("Paris is the capital of [MASK].")
                assert answer.masks[0].predictions[0].token == "france"
                assert answer.provenance.library_versions["torch"].endswith("+cpu")
            probe = ("bertscope-server", "health", "--target", f"127.0.0.1:{port}")
            assert images.run("run", *ways, container, "--", *probe).strip() == "SERVING"
            packages = images.run("run", *ways, container, "--", "sh", "-c", "ls /opt/bertscope/lib/python*/site-packages")
            assert "bertscope_service" in packages
            assert "bertscope_workbench" not in packages
        finally:
            process.terminate()
    left = images.run(
        "run", "--isolation", "chroot", container, "--", "sh", "-c", "ls -d /src /run/secrets /root/.cache/uv/* || true"
    )
    assert left == ""
