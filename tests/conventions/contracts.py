"""A contract for import-linter: modules that only named importers may import.

The built-in `protected` contract fails on a name that is not in the graph, so it can neither be written before the
module is, nor for a library that nobody imports yet; and it looks at every importer. This one takes optional names
(in parentheses, as layers do), wildcards with exceptions, and a part of the code to look `within`. Only direct imports
count: what a permitted importer hands on is the business of `rules.py`.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def _inside(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


class ReservedContract(Contract):
    """`modules` may be imported by `importers` alone, each with what is inside it.

    `apart_from` takes modules out of a wildcard; `within` limits the contract to importers in these packages.
    """

    type_name = "reserved"

    modules = fields.ListField(subfield=fields.StringField())
    importers = fields.ListField(subfield=fields.StringField())
    within = fields.ListField(subfield=fields.StringField(), required=False)
    apart_from = fields.ListField(subfield=fields.StringField(), required=False)

    def _names(self, option: str) -> list[str]:
        return cast("list[str]", getattr(self, option) or [])

    def _reserved(self, graph: ImportGraph) -> Iterator[str]:
        ours = cast("list[str]", self.session_options["root_packages"])
        spared = self._names("apart_from")
        for name in self._names("modules"):
            plain = name.removeprefix("(").removesuffix(")")
            if "*" in plain:
                yield from (found for found in graph.find_matching_modules(plain) if not _inside(found, spared))
            elif plain in graph.modules:
                yield plain
            elif plain == name and _inside(plain, ours):
                raise ValueError(f"module `{plain}` does not exist, put it in parentheses if it may be missing")

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001 - the base's signature
        allowed, within = self._names("importers"), self._names("within")
        found: list[str] = []
        for top in sorted(self._reserved(graph)):
            inside = {top} if graph.is_module_squashed(top) else {top, *graph.find_descendants(top)}
            for module in sorted(inside):
                for importer in sorted(graph.find_modules_that_directly_import(module) - inside):
                    if not _inside(importer, allowed) and (not within or _inside(importer, within)):
                        lines = graph.get_import_details(importer=importer, imported=module)
                        numbers = ", ".join(str(line["line_number"]) for line in lines)
                        found.append(f"- {importer} -> {module} (l.{numbers})")
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in cast("list[str]", check.metadata["found"]):
            output.print_error(line, bold=False)
        output.print(f"Only {', '.join(self._names('importers'))} may.")
        output.new_line()
