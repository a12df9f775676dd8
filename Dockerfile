# docker build -t roots-hub .
# docker run -e HUB_TOKEN=... -p 127.0.0.1:8765:8765 \
#     -v ./hub.yaml:/etc/roots-hub/hub.yaml:ro -v "$PWD:$PWD" roots-hub
#
# A client names paths as it sees them: mount each folder under the path that it has outside.
# HUB_TOKEN is the bearer token that clients must send, unless hub.yaml has a listen.token. Inside a
# container the hub has to bind 0.0.0.0, and it refuses a public bind without a token.
# The hub needs no init beside it: as process 1 it takes away ended processes that nobody waits for.
# Servers that need node or other programs need an image made FROM this one that has them.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN python -m venv /opt/roots-hub \
    && /opt/roots-hub/bin/pip install --no-cache-dir --require-hashes -r requirements.txt \
    && pip install --no-cache-dir --require-hashes -r requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY hub hub
COPY packaging/completions packaging/completions
COPY packaging/man packaging/man
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/roots-hub/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.13-slim
LABEL org.opencontainers.image.title="roots-hub" \
    org.opencontainers.image.description="One MCP endpoint in front of many MCP servers; every path stays inside the client's roots." \
    org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/roots-hub /opt/roots-hub
RUN useradd --system --uid 10001 --create-home hub
ENV PATH=/opt/roots-hub/bin:$PATH PYTHONUNBUFFERED=1
# A number, so that an orchestrator can see that it is not root.
USER 10001
WORKDIR /home/hub
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["python", "-c", \
    "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:8765/health', timeout=4)"]
ENTRYPOINT ["roots-hub"]
CMD ["run", "--http", "0.0.0.0:8765", "--config", "/etc/roots-hub/hub.yaml"]
