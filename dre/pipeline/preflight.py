"""What a profile needs and this machine lacks, said before anything runs."""

import os
import platform
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass
from urllib.parse import urlsplit

from dre.errors import DreError

# Environment variables that can hold the key of a provider; any one will do.
KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
OLLAMA = "http://127.0.0.1:11434"


@dataclass(frozen=True)
class Lack:
    """Something a profile needs that is not here: what, and what to do about it."""

    what: str
    remedy: str

    def __str__(self):
        return f"{self.what}: {self.remedy}"


def lacks(profile):
    """Return what `profile` needs and does not find, as a list of `Lack`; empty if all is here.

    Data sets are looked for where they will be read, so what is absent is fetched if the network allows.
    """
    found = []
    if profile.gpu and not gpu():
        found.append(Lack("no GPU", "run on a machine with one; on CPUs this training would take days"))
    if profile.network:
        found += [*data(profile), *encoder(profile)]
    found += [lack for lack in map(judge, profile.judges) if lack]
    return found


def cpu():
    """Return the name of the processor, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def gpu():
    """Return the name of the first NVIDIA GPU, or None; asks the driver, so torch is not imported."""
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next(iter(answer.stdout.splitlines()), None) if answer.returncode == 0 else None


def data(profile):
    """Return the data sets of `profile` that can neither be read nor fetched, together by their cause."""
    from dre.data import load, rated

    wanted = sorted({part for entry in profile.sets for part in (entry.train, entry.dev, entry.test)})
    readers = [(f"{name} ({split})", load, (name, split)) for name, split in wanted]
    readers += [(name, rated, (name,)) for name in profile.rated]
    names, first = {}, {}
    for what, reader, arguments in readers:
        if error := _error(reader, *arguments):
            cause = re.sub(r"\S*/\S*", "", error)  # the same but for the file
            names.setdefault(cause, []).append(what)
            first.setdefault(cause, error)
    return [Lack(f"no data {', '.join(names[cause])}", first[cause]) for cause in names]


def encoder(profile):
    """Return the encoder of `profile` if it can neither be read nor fetched; MiniLM comes as a package."""
    from dre.slm.encoder import load_encoder

    error = None if profile.encoder == "minilm" else _error(load_encoder, profile.encoder)
    return [Lack(f"no encoder {profile.encoder}", error)] if error else []


def _error(function, *arguments):
    try:
        function(*arguments)
    except DreError as error:
        return str(error)
    return None


def judge(spec):
    """Return what a judge such as "openai:gpt-4o" lacks, or None."""
    provider = spec.partition(":")[0]
    if provider in KEYS and not any(os.environ.get(name) for name in KEYS[provider]):
        return Lack(
            f"no key for judge {spec}",
            f"set {' or '.join(KEYS[provider])}, or take the judge out of the profile",
        )
    if provider == "ollama":
        address = os.environ.get("OLLAMA_HOST") or OLLAMA
        if not _listens(address if "//" in address else f"http://{address}"):
            return Lack(
                f"no Ollama for judge {spec}",
                f"nothing answers at {address}; start 'ollama serve', or set OLLAMA_HOST",
            )
    return None


def _listens(address):
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 11434), timeout=3):
            return True
    except (OSError, ValueError):
        return False
