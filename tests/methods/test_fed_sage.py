from support import assert_same, make, train

from atoll.methods.fed_sage import FedSage
from atoll.models.sage import SAGE
from small_federations import community_parties


def test_it_is_fed_avg_with_another_default_model():
    parties = community_parties()
    for model in (SAGE(hidden=8), make("fed-avg").model):
        ours = train(make("fed-sage", model=model, epochs=2), parties)
        assert_same(ours, train(make("fed-avg", model=model, epochs=2), parties), 0.0)
    assert FedSage().model == SAGE()
