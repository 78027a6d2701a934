"""Statistics of a partition."""

from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_whole, parties_of, partition_rng
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.base import Findings, Study, studies


@studies.register("statistics")
class Statistics(Study):
    """Statistics of the partition, without training."""

    trains = False
    caption = "Statistics of the partition"

    def findings(self, experiment: Experiment) -> Findings:
        whole = load_whole(experiment)
        found = PartitionStatistics(whole, parties_of(experiment, whole)).figures()
        more = experiment.partition.statistics(whole, partition_rng(experiment))
        return Findings(found | more)
