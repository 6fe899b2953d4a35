"""What was found out about a machine."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OK, WARNING, MISSING = "ok", "warning", "missing"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: Its name.
        state: OK, WARNING if it works in part or may not suffice, MISSING if it cannot be used.
        found: What is there: a version, a path, numbers; or what went wrong.
        use: What it is needed for.
        remedy: How to get it; empty if nothing is to be done.
    """

    what: str
    state: str
    found: str
    use: str
    remedy: str = ""


@dataclass(frozen=True)
class Task:
    """Something a user may want to do, and what it needs.

    Attributes:
        name: What it is.
        findings: What it needs, one by one.
        required: Whether the machine is of no use if it cannot be done.
    """

    name: str
    findings: Sequence[Finding]
    required: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing that it needs is missing."""
        return not self.names(MISSING)

    def names(self, state: str) -> list[str]:
        """The names of what is in a state."""
        return [finding.what for finding in self.findings if finding.state == state]

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "name": self.name,
            "ok": self.ok,
            "required": self.required,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }
