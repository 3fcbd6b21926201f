# A worker with the engines llamacpp (CPU) and sim, and the tiny model. Compiles llama.cpp:
#   docker build -f deploy/docker/worker-llamacpp.Dockerfile -t multiverse/worker-llamacpp:0.1.0 .
ARG BUILD_BASE=docker.io/library/python:3.11.14-slim-bookworm
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILD_BASE} AS build
# For processors with AVX2; other machines and accelerators need other flags.
ARG CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY deploy/docker/locks/worker-llamacpp.txt lock.txt
COPY protos protos
COPY shared shared
COPY services/worker services/worker
RUN python3 -m venv /opt/multiverse \
    && CMAKE_ARGS="${CMAKE_ARGS}" /opt/multiverse/bin/pip install --require-hashes --requirement lock.txt \
    && /opt/multiverse/bin/pip install --no-deps --no-build-isolation ./protos ./shared ./services/worker \
    && /opt/multiverse/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
# OpenMP, which llama.cpp computes with.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/multiverse /opt/multiverse
COPY models/multiverse-tiny /models/multiverse-tiny
ENV PATH=/opt/multiverse/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 7071 9090
CMD ["python", "-m", "multiverse_worker"]
