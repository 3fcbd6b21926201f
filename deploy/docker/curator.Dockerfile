# The curator: API and workers are two commands of one image. Build from the repository's root:
#   docker build -f deploy/docker/curator.Dockerfile -t multiverse/curator:0.1.0 .
ARG BUILD_BASE=docker.io/library/python:3.11.14-slim-bookworm
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILD_BASE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY deploy/docker/locks/curator.txt lock.txt
COPY shared shared
COPY services/curator services/curator
RUN python3 -m venv /opt/multiverse \
    && /opt/multiverse/bin/pip install --require-hashes --requirement lock.txt \
    && /opt/multiverse/bin/pip install --no-deps --no-build-isolation ./shared ./services/curator \
    && /opt/multiverse/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/multiverse /opt/multiverse
ENV PATH=/opt/multiverse/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 8080 9090
CMD ["python", "-m", "multiverse_curator", "api"]
