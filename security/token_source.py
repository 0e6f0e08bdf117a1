"""Where a client gets its bearer token: a token endpoint (client credentials grant, KIP-768), or a file."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from typing import Final

from .core.settings import ClientSettings, SecurityConfigError
from .secret_files import read_secret_file

TIMEOUT_S: Final = 10.0
RESPONSE_BYTES_MAX: Final = 256 * 1024
URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Leaves a redirection to be an error."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirection)


def bearer_token(settings: ClientSettings) -> str:
    """Return a token; blocks. OSError if the endpoint fails, SecurityConfigError if the settings are wrong."""
    url = settings.token_url
    if url is None:
        raise SecurityConfigError(f"{URL_KEY} is missing: OAUTHBEARER needs a token endpoint, or a file URL")
    if url.startswith("file:"):
        path = urllib.request.url2pathname(urllib.parse.urlparse(url).path)
        return read_secret_file(path, URL_KEY).decode("utf-8", "replace").strip()
    assert settings.jaas is not None, "OAUTHBEARER has a login module"
    user, secret = settings.jaas.required("clientId"), settings.jaas.required("clientSecret")
    form = {"grant_type": "client_credentials"}
    if "scope" in settings.jaas.options:
        form["scope"] = settings.jaas.options["scope"]
    request = urllib.request.Request(
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {b64encode(f'{user}:{secret}'.encode()).decode()}"},
    )
    return _token_of(fetch(request, URL_KEY))


def fetch(request: urllib.request.Request | str, key: str) -> bytes:
    """Return the body of an answer, at most `RESPONSE_BYTES_MAX`; blocks. OSError names the key. Redirections are not
    followed: credentials would go to another server, and keys could come from one.
    """
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as response:
            body: bytes = response.read(RESPONSE_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        raise OSError(f"{key}: the server answered {error.code} {error.reason}") from None
    except OSError as error:
        raise OSError(f"{key}: {error}") from None
    if len(body) > RESPONSE_BYTES_MAX:
        raise OSError(f"{key}: the answer has more than {RESPONSE_BYTES_MAX} bytes")
    return body


def _token_of(body: bytes) -> str:
    try:
        token = json.loads(body)["access_token"]
    except (ValueError, KeyError, TypeError):
        raise OSError(f"{URL_KEY}: expected a JSON object with access_token") from None
    return str(token)
