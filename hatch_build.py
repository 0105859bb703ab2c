"""What a build adds: the README with links that work on a package index, which has none of the files around it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def with_addresses(text: str, source: str | None, version: str) -> str:
    """The text with every relative link as an address at the version's tag; without a source, its words alone."""

    def address(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if source is None:
            return "" if picture else words
        return f"{picture}[{words}]({source}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return LINK.sub(address, text)


class ReadmeHook(MetadataHookInterface):
    """Gives `readme` to the metadata of wheel and source package; the source is that of `[project.urls]`, if any."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        found = re.search(r'__version__ = "(.+)"', (root / "tikhonet" / "__init__.py").read_text(encoding="utf-8"))
        assert found, "tikhonet/__init__.py must hold __version__"
        source = metadata.get("urls", {}).get("Source")
        text = with_addresses((root / "README.md").read_text(encoding="utf-8"), source, found[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
