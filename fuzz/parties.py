"""A party's folder: its manifest and its CSV files give a graph or a sentence.

python fuzz/parties.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "data")]

from party_examples import halves, wheel  # noqa: E402

from atoll.data.parties import load_party, write_parties  # noqa: E402
from atoll.errors import AtollError  # noqa: E402
from harness import Target, main  # noqa: E402

# A file's content, after a first byte that says which file it is.
_NODES, _EDGES, _MANIFEST, _WRITTEN = (bytes([n]) for n in range(4))
_GOOD_NODES = (
    b"id,label,split,age,town\n"
    b'a,yes,train,31,"Aix, France"\nb,no,val,"45",Oslo\nc,,test,0.5,Oslo\n'
    b"\xc3\xa9,yes,train,7e3,Aix\n"
)
_GOOD_EDGES = b"source,target\na,b\nb,c\nc,\xc3\xa9\n"
_GOOD_MANIFEST = b'name = "clinic"\nclass_names = ["no", "yes"]\n'


def make(folder: Path) -> Target:
    by_hand, written = folder / "hand", folder / "written"
    by_hand.mkdir(parents=True)
    write_parties(halves(wheel()), written)
    party = next(iter(sorted(p for p in written.iterdir() if p.is_dir())))
    manifest = (party / "party.toml").read_bytes()
    good = {"nodes.csv": _GOOD_NODES, "edges.csv": _GOOD_EDGES, "party.toml": _GOOD_MANIFEST}
    lies: dict[str, bytes] = {}

    def attempt(content: bytes) -> bool:
        which = content[0] % 4 if content else 0
        home = party if which == 3 else by_hand
        if which == 3:
            (party / "party.toml").write_bytes(content[1:])
        else:
            for number, (name, usual) in enumerate(good.items()):
                wanted = content[1:] if number == which else usual
                if lies.get(name) != wanted:
                    (by_hand / name).write_bytes(wanted)
                    lies[name] = wanted
        try:
            load_party(home)
        except AtollError:
            return False
        return True

    seeds = [
        _NODES + _GOOD_NODES,
        _EDGES + _GOOD_EDGES,
        _MANIFEST + _GOOD_MANIFEST,
        _WRITTEN + manifest,
    ]
    return Target(seeds, attempt)


if __name__ == "__main__":
    main(make, __file__, __doc__)
