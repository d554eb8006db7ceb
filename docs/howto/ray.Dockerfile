FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv python3-pip
COPY . /src
WORKDIR /src
RUN python3 -m venv /tools && /tools/bin/pip install 'maturin>=1.16,<2' && /tools/bin/maturin build --release --out /dist

# The tag has to be the Ray and the Python of the driver: `planner doctor` prints both.
FROM rayproject/ray:2.60.0-py311
COPY --from=build /dist /tmp/dist
RUN pip install --no-cache-dir /tmp/dist/*.whl s3fs
