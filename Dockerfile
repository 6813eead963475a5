# apifront as an image:
#
#   docker build -t apifront .
#   docker run --read-only -p 7443:7443 -v /etc/apifront:/etc/apifront:ro \
#     apifront --config /etc/apifront/front.yaml
#
# The process runs as user 65532, which must be able to read the mounted files,
# and writes no file. Add `--user` to run it as another one.

FROM rust:1.95-bookworm AS build
# For zlib-ng and mimalloc. The image has gcc.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin apifront \
 && cp target/release/apifront /apifront

# All that the binary needs of a system: the libraries it links, the authorities
# for public names, and a name for its user.
RUN mkdir -p /rootfs/usr/local/bin /rootfs/etc/ssl/certs /rootfs/tmp \
 && cp /apifront /rootfs/usr/local/bin/apifront \
 && ldd /apifront | grep -o '/[^ ]*' | xargs -I{} cp --parents -L {} /rootfs \
 && cp /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/ \
 && echo 'hosts: files dns' > /rootfs/etc/nsswitch.conf \
 && echo 'nonroot:x:65532:65532::/:/sbin/nologin' > /rootfs/etc/passwd

# No shell, no package manager, nothing to write to.
FROM scratch
COPY --from=build /rootfs/ /
# HTTPS (serving.securePort). The observability port is loopback: it is reached
# from containers of the same pod, which share it, and needs no publishing.
EXPOSE 6443
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/apifront"]
