"""An app's code as one set of children loads it. Two equal builds make children that cannot be told apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from relayctl.core.model import DEFAULT_CONCURRENCY, App, Isolation, Resources
from relayctl.runners.environments.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What children are made from. `secrets` pairs a variable with a reference; the values are resolved for each run.

    The modules of `handlers` are imported before a child counts as ready.
    """

    app: str
    revision: str
    directory: Path
    runtime: str
    concurrency: int = DEFAULT_CONCURRENCY
    isolation: Isolation = Isolation.WARM
    resources: Resources = field(default_factory=Resources)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[tuple[str, str], ...] = ()
    handlers: tuple[str, ...] = ()
    environment: Environment | None = None
    """What its dependencies were installed into; None where it runs on what the worker itself runs on."""

    @property
    def places(self) -> tuple[Path, ...]:
        """The directories that its processes run from."""
        return (self.directory,) if self.environment is None else (self.directory, self.environment.directory)

    @classmethod
    def of(cls, app: App, directory: Path, revision: str, environment: Environment | None = None) -> Build:
        """The build of a loaded app; `directory` is the app's own."""
        return cls(
            app=app.name,
            revision=revision,
            directory=directory,
            runtime=app.runtime or "",
            concurrency=app.concurrency,
            isolation=app.isolation,
            resources=app.resources,
            env=app.env,
            secrets=app.secrets,
            handlers=tuple(sorted(app.handlers())),
            environment=environment,
        )
