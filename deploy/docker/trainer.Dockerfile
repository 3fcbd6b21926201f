# The training job. Build from the repository's root:
#   docker build -f deploy/docker/trainer.Dockerfile -t multiverse/trainer:0.1.0 .
ARG BUILD_BASE=docker.io/library/python:3.11.14-slim-bookworm
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILD_BASE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY deploy/docker/locks/trainer.txt lock.txt
COPY shared shared
COPY trainer trainer
RUN python3 -m venv /opt/multiverse \
    && /opt/multiverse/bin/pip install --require-hashes --requirement lock.txt \
    && /opt/multiverse/bin/pip install --no-deps --no-build-isolation ./shared ./trainer \
    && /opt/multiverse/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/multiverse /opt/multiverse
ENV PATH=/opt/multiverse/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 10001:10001
WORKDIR /tmp
CMD ["python", "-m", "multiverse_trainer"]
