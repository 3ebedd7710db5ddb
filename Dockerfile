# tcld in a container. Build: docker build -t tcld .
# It listens on all addresses of the container, so it wants tokens:
#   docker run --rm -v tcld-etc:/etc/tcld -v tcld-data:/var/lib/tcld tcld --tokens-file=/etc/tcld/tokens --new-token=operate
#   docker run -d -p 8723:8723 --stop-timeout 40 -v tcld-etc:/etc/tcld -v tcld-data:/var/lib/tcld tcld
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make pkg-config libcurl4-openssl-dev \
        libgnutls28-dev libinih-dev libjansson-dev libmicrohttpd-dev libopenblas-dev libsqlite3-dev libuv1-dev \
        libzstd-dev nettle-dev zlib1g-dev
WORKDIR /src
COPY . .
RUN make -j"$(nproc)" && make install DESTDIR=/out PREFIX=/usr

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libmicrohttpd12 libgnutls30 libjansson4 libuv1 libinih1 \
        libsqlite3-0 libzstd1 libnettle8 libopenblas0-pthread zlib1g && rm -rf /var/lib/apt/lists/* && \
    useradd --system --no-create-home --home-dir /var/lib/tcld tcld && \
    install -d -o tcld -g tcld -m 0700 /var/lib/tcld /etc/tcld
COPY --from=build /out/usr/sbin/tcld /usr/sbin/tcld
COPY --from=build /out/usr/share/tcld /usr/share/tcld
USER tcld
VOLUME /var/lib/tcld /etc/tcld
EXPOSE 8723
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/sbin/tcld", "--state-dir=/var/lib/tcld"]
CMD ["--listen=0.0.0.0:8723", "--tokens-file=/etc/tcld/tokens"]
