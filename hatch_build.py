"""What a build adds: the README with links that work on a package index, which has none of the files around it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r'(\]\(|src=")(?!\w+:|#)([^)"\s]+)')
PICTURES = (".png", ".svg", ".gif", ".jpg")


def with_addresses(text: str, source: str, version: str) -> str:
    """The text with every relative link as an address at the version's tag."""

    def address(link: re.Match[str]) -> str:
        path = link[2]
        kind = "raw" if path.endswith(PICTURES) else "blob"
        return f"{link[1]}{source}/{kind}/v{version}/{path}"

    return LINK.sub(address, text)


class ReadmeHook(MetadataHookInterface):
    """Gives `readme` to the metadata of wheel and source package."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        found = re.search(r'__version__ = "(.+)"', (root / "tikhonet" / "__init__.py").read_text(encoding="utf-8"))
        assert found, "tikhonet/__init__.py must hold __version__"
        text = with_addresses((root / "README.md").read_text(encoding="utf-8"), metadata["urls"]["Source"], found[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
