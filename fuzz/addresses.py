"""Addresses of plug-ins: what is not admitted is neither read nor imported, whatever it is called.

python fuzz/addresses.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from atoll.deploy.admission import Admission
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.plugins import admitting, load
from harness import Failure, Target, main

# Run, it would say so.
_TRAP = "import builtins\nbuiltins.atoll_trap = True\nclass Mine:\n    pass\n"
_GOOD = "class Mine:\n    pass\n"


def make(folder: Path) -> Target:
    trap, good = folder / "trap.py", folder / "good.py"
    trap.write_text(_TRAP)
    good.write_text(_GOOD)
    admitted = f"{good}:Mine"
    admission = Admission([admitted])
    named = (
        admitted, f"{trap}:Mine", f"{folder}/./trap.py:Mine", "os:system", "atoll.cli:main",
        "builtins:exec", "./trap.py:Mine", "fed-avg", f"{folder}/../{folder.name}/trap.py:Mine",
    )  # fmt: skip

    def attempt(content: bytes) -> bool:
        name = content.decode("utf-8", "replace")
        read = False
        with admitting(admission.addresses):
            try:
                load(name)
                read = True
            except AtollError:
                pass
            for table in (
                {"method": {"name": name}},
                {"model": {"name": "module", "factory": name}},
            ):
                for use in (resolve, admission.localized):
                    with suppress(AtollError):
                        use(table)
        import builtins

        if hasattr(builtins, "atoll_trap"):
            raise Failure("code that nobody has admitted was run")
        return read

    sys.path[:] = [p for p in sys.path if p not in ("", str(folder))]
    return Target([n.encode() for n in named], attempt)


if __name__ == "__main__":
    main(make, __file__, __doc__)
