"""Files of a user's own, for tests of what is done with such ones."""

import hashlib
from pathlib import Path

FED_AVGM = '''"""FedAvg whose server has momentum (Hsu et al., 2019)."""

from atoll.methods import Federation, GlobalModel, Info, option, register
from atoll.tree import Kinds


@register("fed-avgm")
class FedAvgM(GlobalModel):
    """The server moves by a running sum of the clients' mean steps."""

    momentum: float = option(0.9, at_least=0, below=1)

    def start(self, info: Info, seed: int) -> Kinds:
        first = super().start(info, seed)
        return {**first, "velocity": {n: 0 * w for n, w in first["model"].items()}}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        chosen, total = self.train_some(fed, server)
        mean, old = self.averaged(fed, total, chosen), server["model"]
        v = {n: self.momentum * server["velocity"][n] + mean[n] - w for n, w in old.items()}
        return {"model": {n: w + v[n] for n, w in old.items()}, "velocity": v}
'''


def fed_avgm(folder: Path) -> Path:
    file = folder / "mine.py"
    file.write_text(FED_AVGM)
    return file


def trap(folder: Path, name: str = "evil.py") -> tuple[Path, Path]:
    """A file that leaves a mark if it is ever run, and that mark."""
    mark = folder / "was-run"
    file = folder / name
    file.write_text(f"open({str(mark)!r}, 'w').close()\n\n\nclass Evil:\n    pass\n")
    return file, mark


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
