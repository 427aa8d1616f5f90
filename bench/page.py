"""What every page of bench/results says of itself: at which commit its figures were made."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARRIED = ROOT / ".carry/commit"  # by `gpu.sh prepare`, for a machine that gets the files without the history


def commit():
    """The commit of this tree, with its day, and whether files differ from it."""
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    try:
        head = git("log", "-1", "--format=%h (%as)")
    except FileNotFoundError:
        head = None
    if head is None or head.returncode != 0:
        return CARRIED.read_text().strip() if CARRIED.exists() else "unknown: this tree has no history"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "include", "src", "bench", "examples", "cmake", ":!bench/results").stdout
    return head.stdout.strip() + (", with changes that were not committed" if changed.strip() else "")


def write_page(path, text):
    """Writes a page, and under it the commit at which it is made."""
    Path(path).write_text(f"{text.rstrip()}\n\nCommit: {commit()}.\n")


if __name__ == "__main__":
    print(commit())
