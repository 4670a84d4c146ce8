"""Read the built site as a browser without a network would: links lead somewhere, and nothing is fetched.

`python docs/check_site.py docs/_build/html` prints what is wrong, or how much was looked at.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"img": "src", "script": "src", "source": "src", "iframe": "src", "link": "href", "video": "src"}
NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "license"}  # kinds of <link>
IN_CSS = re.compile(r"""url\(\s*['"]?(https?:)?//|@import\s+['"](https?:)?//""")
GENERATED = {"search.html"}  # its links are those of the pages, made by a script


class Page(HTMLParser):
    """The links, fetched files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag refers to."""
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        target = found.get(FETCHED.get(tag, ""))
        if target and not (tag == "link" and set(found.get("rel", "").split()) & NOT_FETCHED):
            self.fetched.append(target)


def faults(root: Path) -> list[str]:
    """What is wrong with the pages below `root`, a line each."""
    root = root.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in written(root)}
    found = []
    for path, page in pages.items():
        here = path.relative_to(root)
        for target in page.fetched:
            url = urlsplit(target)
            if url.scheme in ("http", "https") or url.netloc:
                found.append(f"{here} fetches {target} from a network")
            elif url.scheme != "data" and not (path.parent / unquote(url.path)).exists():
                found.append(f"{here} needs {target}, which is not there")
        for target in page.links if here.as_posix() not in GENERATED else ():
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            to = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not to.exists():
                found.append(f"{here} links to {target}, which is not there")
            elif to in pages and unquote(url.fragment) not in pages[to].anchors:
                found.append(f"{here} links to {target}: no such place on that page")
    for path in sorted(root.rglob("*.css")):
        if IN_CSS.search(path.read_text(encoding="utf-8", errors="replace")):
            found.append(f"{path.relative_to(root)} fetches from a network")
    return found


def written(root: Path) -> list[Path]:
    """The pages, without the theme's templates."""
    return [path for path in sorted(root.rglob("*.html")) if "_static" not in path.relative_to(root).parts]


def main(root: Path) -> int:
    """Print the faults; 1 where there are any."""
    pages = written(root)
    if not pages:
        print(f"{root} holds no pages: build the site first", file=sys.stderr)
        return 1
    found = faults(root)
    fine = f"{len(pages)} pages: every link inside leads somewhere, nothing is fetched"
    print("\n".join(found) or fine)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
