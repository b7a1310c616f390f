"""Three brokers, and a controller that has made a topic on them."""

import pytest

from tests.controller.world import Office, World


@pytest.fixture
def world() -> World:
    world = World()
    world.up(1, 2, 3)
    return world


@pytest.fixture
def office(world: World) -> Office:
    office = world.elect(1)
    office.create("t", placed=[[1, 2, 3]])
    office.told()
    return office
