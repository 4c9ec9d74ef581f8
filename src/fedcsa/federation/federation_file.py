"""federation.toml: who takes part, and as what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fedcsa.errors import hint
from fedcsa.messages.messages import TARGET
from fedcsa.study.toml import Section, parse_toml, read_text

#: Folder beside the kits; it holds the private key of the federation's certificate authority.
AUTHORITY = "authority"
#: What a site and a person can be; the first is the default.
SITE_ROLES = ("source", "target")
USER_ROLES = ("lead", "viewer")
#: Of the target in messages, of the server and the lead in the engine, of the authority's folder.
RESERVED = (TARGET, "server", "lead", AUTHORITY)
#: Letters of a name in a certificate (X.520, ub-common-name).
_LONGEST = 64
#: Names of sites are names of folders, too; those of a server are DNS names; people have addresses.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_HOST = re.compile(r"(([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])\.)*[A-Za-z0-9-]{1,60}")
_USER = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")

#: What ``fedcsa federation init`` writes.
FEDERATION_TEMPLATE = """\
# A federation: one server that carries messages and holds no data, sites, and people.
# Then: fedcsa federation provision federation.toml --out kits
name = "{name}"

[server]
host = "localhost"    # the name under which every site reaches the server; it is in the certificate
port = 8002           # the one port to open at the server, inbound; sites need outbound only

# A site without outcomes that wants a model is a target; a site with outcomes is a source.
[sites.new]
role = "target"

[sites.abbey]
role = "source"

[sites.birch]
role = "source"

# A lead may submit studies; a viewer may only look. Nobody may run commands at a site.
[users."lead@example.org"]
role = "lead"
"""


@dataclass(frozen=True)
class Federation:
    """Who takes part.

    Attributes
    ----------
    name : str
    host : str
        Name of the server.
    port : int
    sites, users : mapping of str to str
        Role by name.
    """

    name: str
    host: str
    port: int
    sites: Mapping[str, str]
    users: Mapping[str, str]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a federation file."""
        path = Path(path)
        text = read_text(path, "federation file", "Write one with: fedcsa federation init")
        return cls.parse(text, path.name)

    @classmethod
    def parse(cls, text: str, origin: str = "federation.toml") -> Self:
        """Read the text of a federation file, or raise a `StudyError` with one line per problem.

        Parameters
        ----------
        text : str
        origin : str
            Name of the file, for the sentences.
        """
        top = Section(parse_toml(text, origin), f"{origin}:")
        name = top.take("name", "str")
        server = top.take("server", "Mapping[str, Any]") or {}
        place = Section(server, f"{origin}: [server]", top.problems)
        host, port = place.take("host", "str"), place.take("port", "int", 8002)
        place.close()
        sites = _roles(top, "sites", SITE_ROLES, origin)
        users = _roles(top, "users", USER_ROLES, origin)
        top.close()
        _named(top, "The federation", [name], _NAME, "letters, digits, - and _")
        _named(top, "The server's host", [host], _HOST, "a host name such as fed.example.org")
        _named(top, "A site", sites, _NAME, "letters, digits, - and _")
        _named(top, "A user", users, _USER, "an e-mail address")
        if not 1 <= port <= 65535:
            place.say("'port' must be between 1 and 65535.")
        for name in sorted({*RESERVED, host} & set(sites), key=str):
            top.say(f"A site must not be called {name!r}: something else has that name.")
        for role in SITE_ROLES:
            if role not in sites.values():
                top.say(f'At least one site must have role = "{role}".')
        if "lead" not in users.values():
            top.say('At least one user must have role = "lead", or nobody can submit a study.')
        top.end()
        return cls(name, host, port, sites, users)


def _roles(top: Section, key: str, allowed: tuple[str, ...], origin: str) -> dict[str, str]:
    """Names with their roles, from one section a name.

    Parameters
    ----------
    top : Section
        Of the whole file; it gathers the problems.
    key : {"sites", "users"}
    allowed : tuple of str
        Roles; the first is the default.
    origin : str
        Name of the file.
    """
    roles = {}
    for name, values in (top.take(key, "Mapping[str, Any]") or {}).items():
        if not isinstance(values, dict):
            top.say(f"[{key}.{name}] must be a section.")
            continue
        section = Section(values, f"{origin}: [{key}.{name}]", top.problems)
        roles[name] = section.take("role", "str", allowed[0])
        section.close()
        if roles[name] not in allowed:
            section.say(f"'role' must be one of {list(allowed)}. {hint(roles[name], allowed)}")
    return roles


def _named(section: Section, what: str, names: Any, pattern: re.Pattern[str], rule: str) -> None:
    """Say which names are not as they must be.

    Parameters
    ----------
    section : Section
        Which gathers the problems.
    what : str
    names : iterable of str
    pattern : re.Pattern
    rule : str
        The pattern in words.
    """
    for name in names:
        if name is not None and (len(name) > _LONGEST or not pattern.fullmatch(name)):
            section.say(f"{what} must be named by {rule}; {name!r} is not.")
