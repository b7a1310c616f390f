"""Three brokers, and a controller that has made a topic on them."""

import pytest

from tests.controller.world import ControllerAtWork, World


@pytest.fixture
def world() -> World:
    world = World()
    world.up(1, 2, 3)
    return world


@pytest.fixture
def active_controller(world: World) -> ControllerAtWork:
    active_controller = world.elect(1)
    active_controller.create("t", placed=[[1, 2, 3]])
    active_controller.told()
    return active_controller
