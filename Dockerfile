# The image of a training job.
#
#   docker build -t fives-tf .
#   docker build -t fives-tf:cpu --build-arg BASE=tensorflow/tensorflow:2.16.2 .
#
# The base brings Python 3.11, TensorFlow 2.16.2 and, in its -gpu form, CUDA.
ARG BASE=tensorflow/tensorflow:2.16.2-gpu
FROM ${BASE}

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# An environment above that of the base, whose TensorFlow it sees. In the base itself pip refuses to
# replace packages that Ubuntu installed without a list of their files.
RUN python -m pip install virtualenv==21.15.6 \
    && python -m virtualenv --system-site-packages /opt/venv
ENV PATH=/opt/venv/bin:$PATH

WORKDIR /opt/fives

# The dependencies first: they change less often than the program, and are cached as a layer.
COPY requirements-runtime.lock ./
RUN python -m pip install --requirement requirements-runtime.lock

COPY setup.py README.md ./
COPY fives_tf fives_tf
COPY pipelines pipelines
COPY launch launch
RUN python -m pip install --no-deps --no-build-isolation . \
    && fives --version

# Numbers, for Kubernetes cannot tell from a name that it is not root's.
RUN groupadd --gid 1000 fives \
    && useradd --uid 1000 --gid 1000 --create-home fives
USER 1000:1000
WORKDIR /home/fives

ENTRYPOINT ["python", "-m", "launch.train_job"]
CMD ["--help"]
