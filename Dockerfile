# syntax=docker/dockerfile:1
#
# The bertscope server with its embedded model. For a CPU:
#
#   docker build --tag bertscope .
#
# For an NVIDIA GPU (a driver for CUDA 13, run with `--gpus all`):
#
#   docker build --tag bertscope:gpu --build-arg TORCH_BACKEND=cu132 \
#     --build-arg BASE_IMAGE=nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 .
#
# buildah and podman build it, too: with `--format docker`, or the health check and the shell below are left out. In a company with
# registries, an index and a certificate authority of its own see docs/docker.md.

ARG BASE_IMAGE=python:3.12-slim
ARG UV_VERSION=0.13.7
ARG UV_IMAGE=ghcr.io/astral-sh/uv:${UV_VERSION}

FROM ${UV_IMAGE} AS uv

# The builder has the same base as the final stage, so that the interpreter lies at the same path in both.
FROM ${BASE_IMAGE} AS builder
SHELL ["/bin/sh", "-euc"]
COPY --from=uv /uv /usr/local/bin/uv
# A base without Python, as nvidia/cuda is, gets one in /opt/python.
ARG PYTHON_VERSION=3.12
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_INSTALL_DIR=/opt/python \
    UV_PYTHON_PREFERENCE=system \
    VIRTUAL_ENV=/opt/bertscope
RUN mkdir -p /opt/python && uv venv --no-cache --python "$PYTHON_VERSION" "$VIRTUAL_ENV"
WORKDIR /src

# The locked dependencies come first: this layer lasts until uv.lock changes. Torch is taken from the build that
# TORCH_BACKEND names (cpu, cu132, ...), which brings the CUDA libraries that belong to it, but not cuRAND, which ONNX Runtime needs; if
# it is empty, TORCH ("torch==2.13.0+cpu") is taken from the indexes below.
ARG TORCH_BACKEND=cpu
ARG TORCH
# A company's own index (UV_DEFAULT_INDEX in place of PyPI; UV_INDEX and UV_FIND_LINKS beside it), and the secret `ca`, its
# certificate authorities. They leave no trace in the image.
ARG UV_DEFAULT_INDEX
ARG UV_INDEX
ARG UV_FIND_LINKS
RUN --mount=type=cache,target=/root/.cache/uv \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    --mount=type=bind,source=uv.lock,target=/src/uv.lock \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    --mount=type=bind,source=service/pyproject.toml,target=/src/service/pyproject.toml \
    --mount=type=bind,source=workbench/pyproject.toml,target=/src/workbench/pyproject.toml \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    uv export --quiet --frozen --no-dev --no-hashes --no-annotate --no-header --no-emit-workspace \
      --package bertscope-service --extra otel --output-file /tmp/locked.txt; \
    sed -E -e '/^(cuda-|nvidia-|triton)/d' -e "s/^torch==.*/${TORCH:-&}/" /tmp/locked.txt > /tmp/requirements.txt; \
    case "$TORCH_BACKEND" in cu*) grep '^nvidia-curand==' /tmp/locked.txt >> /tmp/requirements.txt;; esac; \
    uv pip install ${TORCH_BACKEND:+--torch-backend "$TORCH_BACKEND"} --requirements /tmp/requirements.txt

COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY service service
# The workspace names it; it is not installed.
COPY workbench/pyproject.toml workbench/
RUN --mount=type=cache,target=/root/.cache/uv \
    --mount=type=secret,id=ca,target=/run/secrets/ca \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    uv pip install --no-deps . ./service


FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="bertscope" \
      org.opencontainers.image.description="gRPC service that hosts BERT-family models and answers questions about them" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN groupadd --gid 10001 bertscope \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /models --shell /usr/sbin/nologin bertscope \
 && install --directory --owner=10001 --group=10001 /models
COPY --from=builder /opt/python /opt/python
COPY --from=builder /opt/bertscope /opt/bertscope
# Within a container, loopback is what nobody else reaches; who may is said by the ports that are published. gRPC would write
# a line for every handshake that fails.
ENV PATH=/opt/bertscope/bin:$PATH \
    GRPC_VERBOSITY=ERROR \
    HF_HOME=/models/huggingface \
    BERTSCOPE_HOST=0.0.0.0 \
    BERTSCOPE_CACHE_FOLDER=/models/cache \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# A numeric user lets Kubernetes check runAsNonRoot.
USER 10001:10001
# Downloaded models, exported graphs, and your own models to serve by path; a volume keeps them across containers.
VOLUME ["/models"]
WORKDIR /models
# gRPC, and Prometheus metrics.
EXPOSE 50051 9464
HEALTHCHECK --interval=15s --timeout=10s --start-period=90s --retries=3 \
  CMD ["bertscope-server", "health", "--target", "127.0.0.1:50051"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["bertscope-server"]
