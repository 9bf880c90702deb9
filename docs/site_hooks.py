"""What the site needs beyond its pages: the rest of the repository that they link to, and a check of every link.

The README is the first page. Pages link to files outside ``docs/`` as they lie in the repository; these appear on the
site under ``repository/``, program text as pages of its own, so that no link leads off it.
"""

import logging
import os
import re
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.site")


def place_in_repository(page: str) -> PurePosixPath:
    """Return where a page of the site lies in the repository."""
    if page == "index.md":
        return PurePosixPath("README.md")
    path = PurePosixPath(page.removesuffix(".md") if page.endswith(".py.md") else page)
    return path.relative_to("repository") if path.parts[0] == "repository" else PurePosixPath("docs") / path


def place_on_site(path: PurePosixPath) -> str:
    """Return where a file of the repository lies on the site."""
    if path == PurePosixPath("README.md"):
        return "index.md"
    if path.suffix == ".py":
        path = path.with_name(f"{path.name}.md")
    return str(path.relative_to("docs") if path.parts[0] == "docs" else PurePosixPath("repository") / path)


def target(page: str, link: str) -> PurePosixPath:
    """Return what file of the repository a page's link means."""
    return PurePosixPath(os.path.normpath(place_in_repository(page).parent / link))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and every file of the repository that a page links to."""
    waiting = ["index.md", *(file.src_uri for file in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        source = ROOT / place_in_repository(page)
        if page not in files.src_uris and source.suffix == ".py":
            code = f"# {source.name}\n\n`{source.relative_to(ROOT)}`\n\n```python\n{source.read_text()}```\n"
            files.append(File.generated(config, page, content=code))
        elif page not in files.src_uris:
            files.append(File.generated(config, page, abs_src_path=str(source)))
        if source.suffix != ".md":
            continue
        for link, _ in LINK.findall(source.read_text(encoding="utf-8")):
            place = place_on_site(target(page, link))
            if (ROOT / target(page, link)).is_file() and place not in seen and place not in files.src_uris:
                seen.add(place)
                waiting.append(place)
    return files


def samplers() -> str:
    """Return the table of the catalogue's samplers."""
    from dpmcmc.catalogue import SAMPLERS

    lines = ["| sampler | in `fit` | releases per step | target |", "|---|---|---|---|"]
    for name, one in SAMPLERS.items():
        offered = f"`{name}`" if one.recipe else "no"
        lines.append(f"| [{one.title}]({one.page}.md) | {offered} | {one.releases} | {one.target} |")
    return "\n".join(lines)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every page of an algorithm into the navigation, also those that mkdocs.yml leaves out."""
    (theory,) = (part["Theory"] for part in config.nav or [] if "Theory" in part)
    (algorithms,) = (part["Algorithms"] for part in theory if "Algorithms" in part)
    listed = {place for entry in algorithms for place in entry.values()}
    for page in sorted((ROOT / "docs" / "algorithms").glob("*.md")):
        place = f"algorithms/{page.name}"
        if place not in listed:
            title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            algorithms.append({title: place})
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Write the table of samplers, and links as the site has them."""
    here = page.file.src_uri
    markdown = markdown.replace("<!-- samplers -->", samplers(), 1)
    if here.endswith(".py.md"):
        return markdown

    def moved(match: re.Match[str]) -> str:
        path = target(here, match[1])
        if not (ROOT / path).is_file():
            return match[0]  # left for the strict build to complain about
        return f"]({os.path.relpath(place_on_site(path), PurePosixPath(here).parent)}{match[2] or ''})"

    return LINK.sub(moved, markdown)


class Anchors(HTMLParser):
    """The names on a page, and what it links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one tag."""
        values = {name: value for name, value in attrs if value}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("img", "script", "link", "iframe"):
            self.loaded += [values[name] for name in ("src", "href") if name in values]


def on_post_build(config: MkDocsConfig) -> None:
    """Warn, which fails a strict build, of links that lead nowhere and of anything that a page would fetch."""
    pages: dict[Path, Anchors] = {}
    for path in Path(config.site_dir).rglob("*.html"):
        pages[path.resolve()] = Anchors()
        pages[path.resolve()].feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # served from anywhere, it has absolute links
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    log.warning("%s would fetch %s", path.name, link)
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not found.is_file():
                log.warning("%s links to %s, which is not there", path.name, link)
            elif parts.fragment and found in pages and unquote(parts.fragment) not in pages[found].names:
                log.warning("%s links to %s, a place that is not on that page", path.name, link)
