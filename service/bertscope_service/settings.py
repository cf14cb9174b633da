"""Settings of the server: flag > `BERTSCOPE_*` variable > file > default, read in one place."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from bertscope_service.settings_file import ConfigFile

PREFIX = "BERTSCOPE_"

Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0, le=2_000_000)]
"""gRPC counts milliseconds in 32 bits."""


CALLERS = frozenset(
    PREFIX + name
    for name in ("TARGET", "TOKEN", "TOKEN_FILE", "INSECURE_TOKEN", "TLS", "CA", "CERTIFICATE", "KEY", "SERVER_NAME")
)
"""Variables of the command's other subcommands, which call a server."""


class Settings(BaseSettings):
    """Host BERT-family models behind gRPC and answer questions about them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_prog_name="bertscope serve",
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_exit_on_error=False,
    )

    config: Path | None = None
    """TOML file of settings, named as here with _ for -: max_calls = 100. Flags and variables win over it. Its paths are read
    as those of flags, from the working folder."""

    model: Annotated[list[str], NoDecode] = []
    """[NAME=]SOURCE to host, repeatable: a hub id, a folder or an ONNX file. The first one answers requests that name none.
    None given: the embedded bertscope-mini."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface. Without TLS and tokens, anyone who can connect may call it and unload
    models."""

    port: Port = 50051
    """Port of gRPC; 0 takes a free one."""

    metrics_port: Port = 9464
    """Port of the Prometheus metrics; 0 takes a free one."""

    metrics_host: str | None = None
    """Address to serve metrics on, the same as --host unless set. Metrics name models and no texts, and need no token."""

    port_file: Path | None = None
    """File to write the two ports into, as JSON, once the server listens."""

    tls_certificate: Path | None = None
    """Certificate of the server (PEM, with its chain); given, gRPC speaks TLS only. The certificate, the key and the client CA
    are read again when they change."""

    tls_key: Path | None = None
    """Private key of --tls-certificate, PEM, without a passphrase."""

    tls_client_ca: Path | None = None
    """Certificates (PEM) of the authorities that must have issued clients' certificates; given, no client connects without one
    (mutual TLS)."""

    tokens_file: Path | None = None
    """File of callers, a line each: NAME ROLE sha256:DIGEST, the role read or admin; `bertscope token` writes one. Read again
    when it changes."""

    model_root: Annotated[list[Path], NoDecode] = []
    """Folder below which LoadModel may read models, and CompressModel and PruneHeads save them, repeatable; links out of it are
    rejected. --model is not bound to it."""

    model_hub: Annotated[list[str], NoDecode] = []
    """Hub ids that LoadModel may download, repeatable: a pattern with * and ?, as google-bert/*. With neither this nor
    --model-root, LoadModel takes every source if only this machine can connect, else only the embedded model."""

    device: str = "auto"
    """Device that runs models: auto (the first GPU, else the CPU), cpu, cuda:N, or mps (Apple's GPU, untried)."""

    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto"
    """Number format models compute in; auto is bf16 on an NVIDIA GPU from compute capability 8.0 on, else fp32, and the stored
    format of a model that CompressModel wrote in one. tf32 needs such a GPU, and replaces fp32 there in the whole server."""

    runtime: Literal["auto", "torch", "onnx"] = "auto"
    """Library that runs models: torch, onnx (ONNX Runtime, with graphs that are exported when a model is loaded for the first
    time), or auto: onnx on a CPU and torch on a GPU, unless a measurement finds the other clearly faster; the choice for each
    model's weights is remembered in the cache folder. Give all replicas of a model the same of the first two."""

    cache_folder: Path = Path("~/.cache/bertscope")
    """Folder for exported graphs and for the chosen runtimes; a graph takes as much space as its model's weights."""

    onnx_optimisation: Literal["none", "basic", "extended", "all"] = "all"
    """How far ONNX Runtime rewrites graphs when it loads them."""

    onnx_mixed_batches: bool = False
    """Runs ONNX files of other programs in batches even if their graphs mix the texts of a batch, as those in 8 bits do that
    take one scale for all: faster, and an answer depends on the texts beside it. Otherwise such a graph runs each text by
    itself."""

    threads: Annotated[int, Field(ge=0)] = 0
    """CPU threads a batch runs on; 0 means one per physical core."""

    batch_tokens: Annotated[int, Field(ge=0)] = 0
    """Most tokens in a batch, padding included; 0 means 1024 on a CPU, 16384 on a GPU. A longer text runs alone."""

    queue_tokens: Annotated[int, Field(ge=0)] = 0
    """Most tokens that wait on a device; 0 means as many as it runs in --queue-seconds under load, at least 262144, and at most
    what takes a sixteenth of the memory. A request that finds no room gets RESOURCE_EXHAUSTED with a delay. Bulk work takes no
    room from interactive calls."""

    queue_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    """Longest time that a request may have to wait for others, seconds, estimated from the speed of the last batches; a request
    that would wait longer gets RESOURCE_EXHAUSTED with a delay."""

    stall_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60.0
    """A device that runs one batch for longer than this, and 20 times as long as such a batch is expected to take, is stalled:
    its calls get UNAVAILABLE and health says NOT_SERVING until the batch has ended. 0 means never."""

    client_identity: Literal["connection", "address"] = "connection"
    """Identity of clients without a token, to share evenly: their connection, or their address (for clients that open many
    connections)."""

    max_client_calls: Annotated[int, Field(ge=0)] = 0
    """Most calls of one client at a time; 0 means no limit. One more gets RESOURCE_EXHAUSTED with a delay."""

    max_calls: Annotated[int, Field(ge=0)] = 4096
    """Most calls of all clients at a time; 0 means no limit. One more gets RESOURCE_EXHAUSTED with a delay."""

    sweep_memory_bytes: Positive = 512 * 1024 * 1024
    """Most memory that a sweep keeps hidden states in, on the model's device; beyond it they are computed anew."""

    probe_memory_bytes: Positive = 1024 * 1024 * 1024
    """Most memory for probes and the states that they are trained on, of all calls together; states beyond it are kept
    in a file."""

    probe_disk_bytes: Annotated[int, Field(ge=0)] = 16 * 1024 * 1024 * 1024
    """Most disk space for the states that probes are trained on, of all calls together, in a temporary folder (TMPDIR names
    another); 0 keeps none there."""

    benchmark_memory_bytes: Annotated[int, Field(ge=0)] = 2 * 1024 * 1024 * 1024
    """Most memory for the weights of copies that a benchmark makes to run all models by one library; models beyond it run as
    they are loaded, and the report says so. 0 makes no copies."""

    max_texts: Positive = 256
    """Most texts in a request."""

    max_text_characters: Positive = 100_000
    """Most characters of one text."""

    max_candidates: Positive = 1000
    """Most candidates in a request."""

    max_request_tokens: Positive = 1_000_000
    """Most tokens of work in an interactive request, such as that of FillMask: the tokens of its texts, and the
    tokens of the extra runs for candidates of several pieces. It does not limit the length of one text."""

    max_message_bytes: Positive = 16 * 1024 * 1024
    """Largest request, bytes, also after decompression."""

    max_metadata_bytes: Annotated[int, Field(ge=1024, lt=2**31)] = 16 * 1024
    """Most metadata of a call, bytes, counting gRPC's own and 32 for each entry; a call with more gets RESOURCE_EXHAUSTED."""

    max_streams: Positive = 128
    """Most calls at a time on one connection; the client holds back further ones, so an overloaded server need not reject each
    of them. gRPC rejects excess calls with UNAVAILABLE."""

    max_connections: Annotated[int, Field(ge=0, lt=2**31)] = 1024
    """Most connections at a time; 0 means no limit. One more is closed before anything is read from it."""

    keepalive_seconds: Seconds = 60.0
    """A connection without traffic for this time is pinged, also when no call runs; 0 means never."""

    keepalive_timeout_seconds: Annotated[float, Field(gt=0, le=2_000_000)] = 20.0
    """A connection whose ping is not answered within this time is closed, and its calls are cancelled."""

    min_ping_seconds: Seconds = 10.0
    """A client may ping at most once in this time while it has nothing to send; one that breaks this three times is
    disconnected (GOAWAY, too_many_pings)."""

    max_connection_idle_seconds: Seconds = 3600.0
    """A connection without calls is closed after this time; 0 means never. Clients connect again with their next call."""

    max_connection_age_seconds: Seconds = 0.0
    """A connection takes no new calls after about this time, so that clients reconnect through the load balancer; 0 means
    never."""

    max_connection_age_grace_seconds: Seconds = 0.0
    """Time for calls on a connection that became too old, before they are cancelled; 0 means until they end."""

    grace_seconds: Annotated[float, Field(ge=0)] = 20.0
    """Time for running calls after SIGTERM."""

    drain_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Time during which new calls are still accepted after SIGTERM, while health says NOT_SERVING: load balancers need seconds
    to notice."""

    log_format: Literal["text", "json"] = "text"
    """text for people, json for machines."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""

    trace_endpoint: Annotated[str, Field(pattern=r"^(https?://[^/\s]+)?$")] = ""
    """Endpoint for spans of calls, by OTLP over gRPC: http://HOST:PORT, or https:// for TLS; unset: none. Needs the extra
    "otel"."""

    trace_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the calls that are traced, among calls whose callers don't decide it themselves (W3C traceparent)."""

    channelz: bool = False
    """Answer grpc.channelz.v1, which describes every connection: its addresses, calls, messages, and whether it is
    encrypted."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Returns where values come from, the first wins; flags come before all of them."""
        return init_settings, env_settings, ConfigFile(settings_cls)

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key belong together: give both, or none")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("--tls-client-ca needs --tls-certificate and --tls-key: clients show certificates only over TLS")
        return self

    @field_validator("model", "model_root", "model_hub", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("model_root")
    @classmethod
    def _find_homes(cls, roots: list[Path]) -> list[Path]:
        try:
            return [root.expanduser() for root in roots]
        except RuntimeError as error:
            raise ValueError("there is no user of that name with a home directory") from error

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of gRPC."""
        return self.host, self.port

    @property
    def metrics_address(self) -> tuple[str, int]:
        """Host and port of the metrics."""
        return self.host if self.metrics_host is None else self.metrics_host, self.metrics_port


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Returns BERTSCOPE_* variables that are not settings, each with the setting that may be meant: a misspelt one has no
    effect."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    found = []
    for variable in sorted(name for name in environment if name.upper().startswith(PREFIX)):
        if variable.upper() not in known and variable not in CALLERS:
            near = get_close_matches(variable.upper(), known, n=1, cutoff=0.9)
            found.append(f"{variable} ({near[0]}?)" if near else variable)
    return found


def problem_lines(error: ValidationError, *, flags: bool = False) -> list[str]:
    """Returns a line for each problem: "port: ..., got 'x'", or with `flags` "--port: ..., got 'x'"."""
    return [_problem_line(problem, flags) for problem in error.errors()]


def _problem_line(problem: ErrorDetails, flags: bool) -> str:
    said = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:  # an error of several flags, which its message names
        return said
    parts = [str(part) for part in problem["loc"]]
    name = "--" + "-".join(parts).replace("_", "-") if flags else ".".join(parts)
    return f"{name}: {said}, got {problem['input']!r}"
