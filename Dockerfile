# apifront as an image:
#
#   docker build -t apifront .
#   docker run --read-only -p 7443:7443 -v /etc/apifront:/etc/apifront:ro \
#     apifront --config /etc/apifront/front.yaml
#
# The process runs as user 65532, which must be able to read the mounted files,
# and writes no file. Add `--user` to run it as another one.
#
# An image with the demo, whose port is on loopback:
#
#   docker build -t apifront:demo --build-arg FEATURES=demo .
#   docker run --network host apifront:demo
#
# `make image` makes the same images from a binary that is built already, without a
# registry.

FROM rust:1.95-bookworm AS build
# For zlib-ng and mimalloc. The image has gcc.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Features of the program, such as `demo`; none is for production.
ARG FEATURES=
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin apifront --features "$FEATURES" \
 && cp target/release/apifront /apifront

# All that the binary needs of a system. It links glibc: the image brings the four
# libraries from this stage.
RUN tools/rootfs.sh /apifront /rootfs

# No shell, no package manager, nothing to write to.
FROM scratch
COPY --from=build /rootfs/ /
# HTTPS (serving.securePort). The observability port is loopback: it is reached
# from containers of the same pod, which share it, and needs no publishing.
EXPOSE 6443
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/apifront"]
