"""How the SDKs reach a server: what no SDK holds is held here, in one place.

No redirect is followed, so no key is taken along to another host. An answer has at most 16 MB, is
packed once at most, and comes within a total time. A server that is not the provider's gets no
header that an SDK takes from the environment.
"""

import json
import threading
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

MOST_BYTES = 16_000_000
LOST = 599  # the status of a call that was sent, and whose answer did not come
_PLAIN_HEADERS = {
    *("accept", "anthropic-version", "connection", "content-length", "content-type", "host"),
    *("transfer-encoding", "user-agent"),
}


class Heard(threading.local):
    """What the last call of this thread got: an HTTP status (0: none), and the body."""

    status = 0
    body = b""


heard = Heard()


def http_options(
    library: Any, address: str, timeout: float, key_header: dict[str, str]
) -> dict[str, Any]:
    """Return the options of a client of ``httpx`` or ``httpx2`` for one address.

    Parameters
    ----------
    library : module
        The one that the SDK works with.
    address : str
        Where the calls go.
    timeout : float
        Seconds that a call may take, from its first byte to the last one of the answer.
    key_header : dict
        The only header with a key that a server of others gets; {} at the provider's own host,
        where all headers of the SDK stay.
    """

    class Transport(library.HTTPTransport):
        def handle_request(self, request: Any) -> Any:
            if key_header:
                for name in list(request.headers):
                    if name.lower() not in _PLAIN_HEADERS:
                        del request.headers[name]
                request.headers.update(key_header)
            request.headers["accept-encoding"] = "identity"
            heard.status = 0
            deadline = time.monotonic() + timeout
            try:
                response = super().handle_request(request)
                heard.status = response.status_code
                body = self._read(response, deadline)
            except (library.ConnectError, library.ConnectTimeout, library.ProxyError):
                raise  # nothing was sent, so the SDK may try again
            except library.TransportError as error:
                reason = f"no whole answer within {timeout:g} s"
                if not isinstance(error, library.TimeoutException):
                    reason = f"the connection was lost ({error or type(error).__name__})"
                return self._lost(request, reason)
            heard.body = body
            headers = {"content-type": response.headers.get("content-type", "")}
            for name in ("retry-after", "retry-after-ms", "x-should-retry"):
                if name in response.headers:
                    headers[name] = response.headers[name]
            status = response.status_code
            return library.Response(status, headers=headers, content=body, request=request)

        def _read(self, response, deadline):
            """Return the body, or JSON that says why it is none."""
            body = bytearray()
            try:
                if response.is_redirect:
                    target = response.headers.get("location", "another address")
                    return _as_json(f"a redirect to {target}, which is not followed")
                if "," in response.headers.get("content-encoding", ""):
                    return _as_json("an answer that is packed twice")
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        return _as_json("an answer of more than 16 MB")
                    if time.monotonic() > deadline:
                        raise library.ReadTimeout("the answer does not end")
            except library.DecodingError:
                return _as_json("an answer that cannot be unpacked")
            finally:
                response.close()
            return bytes(body)

        def _lost(self, request, reason):
            """Return an answer of our own: no SDK sends such a call again, it may be paid for."""
            heard.status = LOST
            headers = {"x-should-retry": "false"}
            return library.Response(
                LOST, headers=headers, content=_as_json(reason), request=request
            )

    # No call waits for a connection: there are as many as threads.
    limits = library.Limits(max_connections=None, max_keepalive_connections=None)
    return {
        "transport": Transport(proxy=_proxy(address), limits=limits),
        "timeout": library.Timeout(timeout, connect=min(timeout, 30.0)),
        "follow_redirects": False,
        "trust_env": False,
    }


def _as_json(reason):
    """Return a body of our own that says why there is none, as all providers word an error."""
    return json.dumps({"error": {"message": reason, "status": "", "details": []}}).encode()


def _proxy(address: str) -> str | None:
    """Return the proxy that the environment names for an address, or None."""
    url = urlsplit(address)
    if urllib.request.proxy_bypass(url.netloc):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")
