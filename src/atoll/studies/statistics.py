"""What a partition is like."""

from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_whole, parties_of, partition_rng
from atoll.report.description import Description
from atoll.studies.base import Findings, Study, studies


@studies.register("statistics")
class Statistics(Study):
    """Statistics of the partition, without training."""

    trains = False
    caption = "Statistics of the partition"

    def findings(self, experiment: Experiment) -> Findings:
        whole = load_whole(experiment)
        found = Description(whole, parties_of(experiment, whole)).statistics()
        more = experiment.partition.statistics(whole, partition_rng(experiment))
        return Findings(found | more)
