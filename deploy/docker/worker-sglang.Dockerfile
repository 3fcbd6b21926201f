# A worker with the engine sglang, for GPUs. Build from the repository's root:
#   docker build -f deploy/docker/worker-sglang.Dockerfile -t multiverse/worker-sglang:0.1.0 .
ARG BUILD_BASE=docker.io/nvidia/cuda:12.9.1-devel-ubuntu24.04
ARG BASE=docker.io/nvidia/cuda:12.9.1-runtime-ubuntu24.04

FROM ${BUILD_BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY protos protos
COPY shared shared
COPY services/worker services/worker
# SGLang pins torch and all else that it needs; what is ours must not move that.
RUN python3 -m venv /opt/multiverse \
    && /opt/multiverse/bin/pip install sglang==0.5.23 \
    && /opt/multiverse/bin/pip freeze > /tmp/sglang.txt \
    && /opt/multiverse/bin/pip install --constraint /tmp/sglang.txt \
       ./protos ./shared './services/worker[fetch,tier,tracing]' \
    && /opt/multiverse/bin/pip uninstall --yes pip

FROM ${BASE}
# Triton compiles a launcher for each kernel when it is first used: it needs a C compiler.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev libnuma1 python3 python3-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/multiverse /opt/multiverse
ENV PATH=/opt/multiverse/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 7071 9090
CMD ["python", "-m", "multiverse_worker"]
