"""Reading config.yaml: find it, parse it, check it, and name every problem by file and line.

All problems of a file are reported at once, as `config.yaml:12: unknown field ...`, in one ConfigError.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast, get_args

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from bot.config.agents import DEFAULT, NamedElsewhere, agent_problems
from bot.config.channels import unknown_channels, unlabelled
from bot.config.file.source import STORE_VARIABLE, data_dir, find_config, folder_of, parsed_file
from bot.config.file.yaml import Parsed
from bot.config.mcp import naming_problems, server_names, tool_arguments, tool_names
from bot.config.model import Config, Settings, StoreSettings
from bot.config.plugins import PLUGINS, FindPlugin, PluginSet, plugin_set, unknown_tools
from bot.config.secrets import grant_problems, granted
from bot.config.shipped import console_dropped
from bot.config.unused_marks import unused_marks
from bot.config.workflows import load_definitions
from bot.core.errors import ConfigError
from bot.sessions.workflows.definitions import WorkflowDefinition
from policy.document.model import Document
from policy.document.model import load as load_policy
from policy.errors import DocumentError, Problem, nearest
from policy.labels import PUBLIC
from policy.rules import CodeRules

_POLICY: Final = "policy"
_SERVERS: Final = "mcp_servers"
_BLOCKS: Final = frozenset((*Settings.model_fields, _POLICY))
_EXPECTED: Final = MappingProxyType(
    {
        "string_type": "a text",
        "int_type": "a whole number",
        "model_type": "a block of fields",
        "dict_type": "a block of fields",
        "list_type": "a list",
        "model_attributes_type": "a block of fields",
        "mapping_type": "a block of fields",
        "tuple_type": "a list",
        "string_too_short": "no empty text",
    }
)


def load_config(
    named: Path | None, environment: Mapping[str, str], tools: Collection[str], find: FindPlugin | None = None
) -> Config:
    """Return the configuration in force.

    `named` is the file given on the command line; without one LOCKGATE_CONFIG counts, then ./config.yaml, then the
    defaults. LOCKGATE_DATA_DIR and LOCKGATE_STORE_URL override their fields. `tools` are the names that the policy may
    use, see `policy.document.model.load`. `find` loads the plugins that the file names; without it none are loaded.
    Raises ConfigError: with one line for each problem.
    """
    path = find_config(named, environment)
    parsed = Parsed({}, {}, ()) if path is None else parsed_file(path)
    settings, policy = _understood(path, parsed, tools, find)
    return Config(
        data_dir=data_dir(settings.data_dir, path, environment),
        logs=settings.logs,
        telemetry=settings.telemetry,
        metrics=settings.metrics,
        store=_store(settings, environment),
        model=settings.model,
        agents=settings.agents,
        limits=settings.limits,
        web=settings.web,
        webhooks=settings.webhooks,
        runs=settings.runs,
        knowledge=settings.knowledge,
        workflows=_workflows(settings, path),
        files=settings.files,
        imports=settings.imports,
        transcriber=settings.transcriber,
        secrets=granted(settings.secrets, settings.mcp_servers),
        mcp_servers=settings.mcp_servers,
        mcp_accounts=settings.mcp_accounts,
        channels=settings.channels,
        tools=settings.tools,
        plugins=tuple(settings.plugins),
        policy=policy,
        source=path,
        rule_lines=tuple(parsed.line((_POLICY, "rules", place)) for place in range(len(policy.rules))),
        definitions=_definitions(settings, path),
    )


def _understood(
    path: Path | None, parsed: Parsed, tools: Collection[str], find: FindPlugin | None
) -> tuple[Settings, Document]:
    """Return the settings and the policy of a file. Raises ConfigError: with one line for each problem."""
    problems, settings, policy = list[Problem](), Settings(), None
    if isinstance(parsed.value, dict):
        # A block whose every line is commented out is empty, not wrong.
        known = {name: value for name, value in parsed.value.items() if value is not None or name not in _BLOCKS}
        plugins = None if find is None else plugin_set(known.get(PLUGINS), folder_of(path), find, frozenset(tools))
        settings, policy = _read(known, tools, plugins, problems)
    elif parsed.value is None:
        policy = _policy({}, problems, servers={}, tools=tools)
    else:
        problems.append(Problem((), "the file must hold fields, such as `model:`"))
    if problems or parsed.problems or policy is None:
        raise _config_error(path, parsed, problems)
    return settings, policy


def _read(
    known: dict[str, JsonValue], tools: Collection[str], plugins: PluginSet | None, problems: list[Problem]
) -> tuple[Settings, Document | None]:
    """Return the settings and the policy of a file, and note their problems; `plugins` is None if none were loaded."""
    labels, servers = known.pop(_POLICY, {}), known.get(_SERVERS, {})
    added = plugins or PluginSet()
    problems.extend(added.problems)
    tools = _added(tools, added)
    policy = _policy(labels, problems, servers=servers, tools=tools, code=added.code)
    settings = _settings(known, problems)
    problems.extend(grant_problems(settings.secrets, settings.mcp_servers, (*tools, *tool_names(servers))))
    labelled = labels.get(_SERVERS) if isinstance(labels, dict) else None
    lists = labels.get("lists") if isinstance(labels, dict) else None
    problems.extend(naming_problems(servers, tools, labelled, lists))
    if plugins is not None:
        problems.extend(unknown_channels(settings.channels, plugins.channels))
        problems.extend(unknown_tools(settings.tools, plugins))
    problems.extend(_unfit(settings, (*tools, *tool_names(servers)), policy))
    return settings, policy


def _added(tools: Collection[str], plugins: PluginSet) -> Collection[str]:
    """Return the tools that are known, with those of plugins."""
    if isinstance(tools, Mapping):
        return {**cast("Mapping[str, Mapping[str, str]]", tools), **plugins.tools}
    return (*tools, *plugins.tools)


def _workflows(settings: Settings, path: Path | None) -> Mapping[str, WorkflowDefinition]:
    """Return the definitions of workflows. Raises ConfigError: with one line for each problem."""
    return load_definitions(_definitions(settings, path), (*settings.agents, DEFAULT))


def _definitions(settings: Settings, path: Path | None) -> Path | None:
    named = settings.workflows.definitions
    return None if named is None else folder_of(path) / named


def _store(settings: Settings, environment: Mapping[str, str]) -> StoreSettings:
    """Return where the store is; the environment may name another place."""
    url = environment.get(STORE_VARIABLE)
    return settings.store.model_copy(update={"url": url}) if url else settings.store


def _settings(value: dict[str, JsonValue], problems: list[Problem]) -> Settings:
    try:
        return Settings.model_validate(value)
    except ValidationError as error:
        problems.extend(_problem(details) for details in error.errors(include_url=False, include_input=False))
        return Settings()


def _policy(
    value: JsonValue,
    problems: list[Problem],
    *,
    servers: JsonValue,
    tools: Collection[str],
    code: CodeRules | None = None,
) -> Document | None:
    try:
        return load_policy(value, tools=_known(tools, servers), servers=server_names(servers), code=code)
    except DocumentError as error:
        found = (*error.problems, *console_dropped(value, error.problems))
        problems.extend(Problem((_POLICY, *problem.path), problem.message) for problem in found)
        return None


def _unfit(settings: Settings, tools: Collection[str], policy: Document | None) -> Iterator[Problem]:
    """Yield the parts that do not fit the policy, or other parts of the file."""
    yield from unlabelled(settings.channels, policy)
    yield from _unknown_clearance(settings, policy)
    yield from _agents(settings, tools, policy)
    yield from unused_marks(settings.mcp_servers, policy)


def _unknown_clearance(settings: Settings, policy: Document | None) -> Iterator[Problem]:
    """Yield the faults of the clearance of telemetry or records: a compartment that the policy does not have."""
    if policy is None:
        return
    sinks = (
        (("telemetry", "clearance"), None if settings.telemetry is None else settings.telemetry.label),
        (("metrics", "clearance"), None if settings.metrics is None else settings.metrics.label),
        (("runs", "records", "clearance"), settings.runs.records.label),
    )
    for place, label in sinks:
        for name in sorted((PUBLIC if label is None else label).compartments - policy.top.compartments):
            yield Problem(place, f"unknown compartment `{name}`{nearest(name, policy.top.compartments)}")


def _agents(settings: Settings, tools: Collection[str], policy: Document | None) -> Iterator[Problem]:
    model = settings.model
    known = NamedElsewhere(
        models=model.all,
        usual=model.chain,
        addresses={name: said.base_url for name, said in model.providers.items()},
        secrets=settings.secrets,
        tools=tools,
    )
    return agent_problems(settings.agents, known, policy)


def _known(tools: Collection[str], servers: JsonValue) -> Collection[str]:
    """Return the names of all tools, with their arguments where those of the tools given are known."""
    if isinstance(tools, Mapping):
        return {**cast("Mapping[str, Mapping[str, str]]", tools), **tool_arguments(servers)}
    return (*tools, *tool_names(servers))


def _problem(details: ErrorDetails) -> Problem:
    """Return pydantic's error, in our words."""
    # pydantic marks an error in the name of an entry by one more element
    path = tuple(part for part in details["loc"] if part != "[key]")
    context = details.get("ctx", {})
    match details["type"]:
        case "extra_forbidden":
            known = (*_fields_at(path[:-1]), *((_POLICY,) if len(path) == 1 else ()))
            return Problem(path, f"unknown field `{path[-1]}`{nearest(str(path[-1]), known)}")
        case "missing":
            return Problem(path[:-1], f"`{path[-1]}` is missing, add it")
        case "value_error":
            return Problem(path, str(context["error"]))
        case _:
            said = _EXPECTED.get(details["type"], details["msg"].removeprefix("Input should be ").lower())
            return Problem(path, f"`{path[-1] if path else 'configuration'}` must be {said}")


def _fields_at(path: Iterable[str | int]) -> tuple[str, ...]:
    """Return the names of the fields of the block at a path."""
    block: type[BaseModel] | None = Settings
    for part in path:
        # Between a field that maps names to blocks and the field of such a block stands a name.
        field = None if block is None else block.model_fields.get(str(part))
        block = block if field is None else _block(field.annotation)
    return () if block is None else tuple(block.model_fields)


def _block(annotation: object) -> type[BaseModel] | None:
    """Return the kind of block that a field's type holds, itself or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _block(inner))), None)


def _config_error(path: Path | None, parsed: Parsed, problems: Iterable[Problem]) -> ConfigError:
    # An unreadable part is reported once, not again for its placeholder.
    unread = {problem.path for problem in parsed.problems}
    mistakes = (*parsed.problems, *(problem for problem in problems if problem.path not in unread))
    told = sorted({(parsed.line(problem.path), problem.message) for problem in mistakes})
    return ConfigError("\n".join(f"{path}:{line}: {message}" for line, message in told))
