"""Prometheus as deploy/prometheus configures it, on a free port, asking a server each second."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.support.patience import granted, wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"


def program(name: str) -> str:
    """Where a program of Prometheus is; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; it comes with Debian's package prometheus")
    return found


def rendered(target: str) -> str:
    """The configuration for another server, HOST:PORT of its metrics, asked more often, to wait less."""
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    configuration["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(FOLDER / name) for name in configuration["rule_files"]]
    (job,) = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    return yaml.safe_dump(configuration)


class Prometheus:
    """A Prometheus in a process of its own."""

    def __init__(self, folder: Path, target: str) -> None:
        configuration, self._output = folder / "prometheus.yml", folder / "prometheus.txt"
        configuration.write_text(rendered(target), encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        flags = (f"--config.file={configuration}", f"--storage.tsdb.path={folder}", f"--web.listen-address={self._address}")
        with self._output.open("wb") as file:
            self._popen = subprocess.Popen([program("prometheus"), *flags], stdout=file, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.wait(granted(30))

    def get(self, path: str, **parameters: str) -> Any:
        """What an endpoint of its API has to say."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=granted(10)) as page:
            answer = json.load(page)
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, query: str) -> list[float]:
        """The values of a query now."""
        return [float(sample["value"][1]) for sample in self.get("query", query=query)["result"]]

    def wait_for(self, query: str, what: str) -> None:
        """Wait until a query has a result."""

        def found() -> bool:
            assert self._popen.poll() is None, self._output.read_text()
            try:
                return bool(self.values(query))
            except OSError:
                return False  # it does not listen yet

        wait_until(found, what)
