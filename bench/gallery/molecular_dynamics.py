"""OpenMM: forces and steps of a box of water."""

import numpy as np
import openmm
from kit import ON_GPU, result, timed
from openmm import app, unit

field = app.ForceField("tip3p.xml")
box = app.Modeller(app.Topology(), [])
SIDE, STEPS = (9.6, 500) if ON_GPU else (3.0, 20)
box.addSolvent(field, boxSize=openmm.Vec3(SIDE, SIDE, SIDE) * unit.nanometer)
system = field.createSystem(box.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.9 * unit.nanometer)
# The solvent is laid out at random angles by a generator without a seed: a lattice instead.
count = box.topology.getNumResidues()
side = int(np.ceil(count ** (1 / 3)))
cell = np.stack(np.unravel_index(np.arange(count), (side,) * 3), axis=1) * (SIDE / side)
water = np.array([[0.0, 0.0, 0.0], [0.09572, 0.0, 0.0], [-0.024, 0.0927, 0.0]])
positions = (cell[:, None, :] + water[None]).reshape(-1, 3)
step = openmm.VerletIntegrator(0.0005 * unit.picoseconds)
platform = openmm.Platform.getPlatformByName("OpenCL")
context = openmm.Context(system, step, platform, {"Precision": "single"})
context.setPositions(positions * unit.nanometer)
forces = context.getState(getForces=True).getForces(asNumpy=True)
result("forces", np.array(forces.value_in_unit(unit.kilojoule_per_mole / unit.nanometer)))
step.step(10)
after = context.getState(getPositions=True).getPositions(asNumpy=True)
result("positions after 10 steps", np.array(after.value_in_unit(unit.nanometer)))


def steps() -> None:
    """Some more."""
    step.step(STEPS)
    context.getState(getEnergy=True)


timed(steps, 2)
