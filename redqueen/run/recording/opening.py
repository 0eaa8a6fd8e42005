"""Opens the recorders and trackers that `run.recorders` and `run.trackers` name, ours and those of plugins."""

from __future__ import annotations

from collections.abc import Callable

from redqueen import extras, plugins
from redqueen.base.optional import is_installed, missing
from redqueen.config import Config
from redqueen.run.recording.recorder import Recorder, Session
from redqueen.run.recording.tracker import Tracker, failure
from redqueen.store.directory import RunDirectory

TRACKERS = tuple(extras.OFFERS["tracker"])
"""The names of ours."""


def check_trackers(config: Config) -> None:
    """Raises, before anything is loaded or written, if a tracker cannot be opened.

    MissingLibraryError if its library is not installed, PluginError if an own one lacks a method.
    """
    # The library and its extra have the tracker's name. What a plugin needs, it has imported.
    for name in config.run.trackers:
        if name in TRACKERS:
            extras.require("tracker", name)
            if not is_installed(name):
                raise missing(name, name, f"run.trackers={name}")
        elif lacking := sorted(getattr(plugins.find("tracker", name), "__abstractmethods__", ())):
            raise plugins.PluginError(f"the tracker '{name}' has no {' and no '.join(lacking)}: write what it does")


def open_recorders(config: Config, directory: RunDirectory, first: int, say: Callable[[str], None]) -> list[Recorder]:
    """Returns the recorders of the run's plugins. Whatever goes wrong in one is an error of the run.

    `first` is the first step that they will record, and `say` tells a person a line.
    """
    session = Session(directory=directory, config=config, first=first, say=say)
    return [plugins.find("recorder", name)(session) for name in config.run.recorders]


def open_trackers(config: Config, directory: RunDirectory, first: int, say: Callable[[str], None]) -> list[Tracker]:
    """Returns the trackers that could be opened, and remembers what their libraries know the run by.

    `say` gets a line about each: how to look at it, or why it is off. `first` is the first step that they will record.
    """
    ids = directory.tracker_ids()
    opened: list[Tracker] = []
    for name in config.run.trackers:
        session = Session(directory=directory, config=config, first=first, id=ids.get(name), say=say)
        opener: Callable[[Session], Tracker] = (extras if name in TRACKERS else plugins).find("tracker", name)
        try:
            tracker = opener(session)
        # No login, no network, a full disk, another version: whatever it is, the run can do without.
        except Exception as error:  # noqa: BLE001
            say(failure(name, error))
            continue
        say(f"{name}: {tracker.where}" if tracker.where else f"{name} is on")
        opened.append(tracker)
        if tracker.id is not None:
            ids[name] = tracker.id
    if ids:
        directory.set_tracker_ids(ids)
    return opened
