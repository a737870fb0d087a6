# Two images. `scripts/image` builds and tries both without a Docker daemon.
#   slim   the core, for beside a broker: the folder of scripts/package and nothing else, no shell either
#   full   Airflow and Spark: driver and workers have the same Python, kafkats and libraries
# BASE of the full image is of Debian, and has python3.11 with venv and a user `airflow`.
ARG BASE=apache/airflow:3.3.2-python3.11

FROM scratch AS slim
# kafkats-VERSION-MACHINE.tar.xz of `scripts/package build/image`
ARG PACKAGE
ADD $PACKAGE /opt/
ENTRYPOINT ["/opt/kafkats/kafkats"]
CMD ["--help"]

FROM $BASE AS full
# Only where a proxy has certificates of its own: the file of trusted ones, mounted for the build.
ARG SSL_CERT_FILE

# The owner of the broker's files: new index files must have the owner of those that they replace.
ARG KAFKA_UID=1000
ARG KAFKA_GID=1000

USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils curl default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --non-unique --gid "$KAFKA_GID" kafka \
    && usermod --non-unique --uid "$KAFKA_UID" --gid kafka airflow \
    && install --directory --owner=airflow --group=kafka /opt/kafkats /var/lib/kafkats
USER airflow
WORKDIR /opt/kafkats

# A separate environment, made only from the lock: packages of the base image are not visible in it.
COPY --chown=airflow:kafka requirements.lock ./
RUN python3.11 -m venv .venv \
    && .venv/bin/pip install --quiet --no-cache-dir uv==0.13.8 \
    && .venv/bin/uv pip sync --quiet --no-cache --python .venv/bin/python --require-hashes requirements.lock

COPY --chown=airflow:kafka pyproject.toml hatch_build.py README.md LICENSE ./
COPY --chown=airflow:kafka kafkats kafkats
COPY --chown=airflow:kafka pyspark_kafkats pyspark_kafkats
COPY --chown=airflow:kafka spark_jobs spark_jobs
COPY --chown=airflow:kafka dags dags
COPY --chown=airflow:kafka plugins plugins
COPY --chown=airflow:kafka docs docs
COPY --chown=airflow:kafka deploy/kubernetes/job.yaml deploy/kubernetes/
RUN .venv/bin/uv pip install --quiet --no-cache --python .venv/bin/python --no-build-isolation --no-deps .
# The kernels as machine code for every processor of this platform: nothing is compiled at its first use.
COPY --chown=airflow:kafka tools/kernels_library.py tools/
RUN .venv/bin/python -m tools.kernels_library .venv/lib/python3.11/site-packages/kafkats/kernels

ENV PATH=/opt/kafkats/.venv/bin:$PATH \
    PYTHONPATH= \
    PYSPARK_PYTHON=/opt/kafkats/.venv/bin/python \
    NUMBA_CACHE_DIR=/opt/kafkats/.numba \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/kafkats/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False

# The base image's entry point takes every command for an Airflow command; ours are complete commands.
ENTRYPOINT []
