"""Parties of a secure sum, of a run and round that tests name."""

from atoll.privacy.secure.party import Keys, Party
from atoll.privacy.secure.signing import Session, Signer, Simulated, keys_statement, public_half

SHARE = 0.67
NOW = Session("run", 1, 2, 0)


def new_party(client, session=NOW, share=SHARE):
    return Party(share, signer(client, session))


def signer(client, session=NOW):
    return Signer(client, session, Simulated().key(client), Simulated())


def signed_keys(client, cipher, mask, session=NOW, by=None):
    """Keys with the signature of the client itself, or of a key of somebody else's."""
    key = by or Simulated().key(client)
    signature = key.sign(keys_statement(session, client, cipher, mask))
    return Keys(cipher, mask, public_half(key), signature)
