"""The leader epoch cache."""

from barnabas.log.epochs import LeaderEpochs


def test_an_epoch_is_known_from_its_first_offset_on() -> None:
    epochs = LeaderEpochs([(1, 0), (3, 10), (4, 20)])
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [1, 1, 3, 3, 4, 4]
    assert LeaderEpochs([(2, 5)]).epoch_at(4) == -1


def test_an_epoch_begins_once() -> None:
    epochs = LeaderEpochs([])
    epochs.begin(1, 0)
    epochs.begin(1, 5)
    assert epochs.entries == [(1, 0)]


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next() -> None:
    epochs = LeaderEpochs([(1, 0)])
    epochs.begin(2, 8)
    epochs.begin(3, 8)
    assert epochs.entries == [(1, 0), (3, 8)]


def test_a_lower_epoch_drives_out_higher_ones() -> None:
    epochs = LeaderEpochs([(1, 0), (9, 4)])
    epochs.begin(1, 6)
    assert epochs.entries == [(1, 0)]
    assert epochs.latest == 1


def test_truncations_keep_what_is_between() -> None:
    epochs = LeaderEpochs([(1, 0), (3, 10), (4, 20)])
    epochs.truncate_end(20)
    assert epochs.entries == [(1, 0), (3, 10)]
    epochs.truncate_start(15)
    assert epochs.entries == [(3, 15)]
    epochs.truncate_start(3)
    assert epochs.entries == [(3, 15)]
    assert epochs.dirty
    epochs.truncate_end(0)
    assert epochs.latest == -1


def test_an_epoch_without_a_record_is_not_that_of_the_last_record() -> None:
    """A replica that lost its end in a power loss would win over one that has all records."""
    epochs = LeaderEpochs([(1, 0), (3, 10)])
    assert epochs.latest_written(0, 11) == 3
    assert epochs.latest_written(0, 10) == 1
    epochs.truncate_end(8)
    epochs.begin(3, 8)  # as recovery does, so that the epoch is not used again
    assert epochs.latest_written(0, 8) == 1
    assert LeaderEpochs([(3, 0)]).latest_written(0, 0) == -1, "all records are lost"
    assert LeaderEpochs([(3, 20)]).latest_written(20, 20) == 3, "all records were deleted"
