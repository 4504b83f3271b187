"""LuxCore: a ball on a floor, by path tracing with OpenCL."""

import os
import sys
import time

import numpy as np
import pyluxcore
from kit import result

pyluxcore.Init(lambda _line: None)
SCENE = """
scene.camera.lookat.orig = 1 -6 2
scene.camera.lookat.target = 0 0 0.5
scene.lights.sky.type = constantinfinite
scene.lights.sky.color = 0.6 0.8 1
scene.materials.grey.type = matte
scene.materials.grey.kd = 0.7 0.6 0.5
scene.objects.floor.material = grey
scene.objects.floor.vertices = -4 -4 0 4 -4 0 4 4 0 -4 4 0
scene.objects.floor.faces = 0 1 2 2 3 0
scene.objects.roof.material = grey
scene.objects.roof.vertices = -1 -1 0.2 1 -1 0.2 0 1 1.5
scene.objects.roof.faces = 0 1 2
"""
kind = "gpu" if os.environ.get("GALLERY_KIND") == "gpu" else "cpu"
CONFIG = f"""
renderengine.type = PATHOCL
sampler.type = SOBOL
film.width = 160
film.height = 120
film.outputs.0.type = RGB_IMAGEPIPELINE
batch.haltspp = 16
opencl.cpu.use = {int(kind == "cpu")}
opencl.gpu.use = {int(kind == "gpu")}
opencl.native.threads.count = 0
"""
scene_properties, properties = pyluxcore.Properties(), pyluxcore.Properties()
scene_properties.SetFromString(SCENE)
properties.SetFromString(CONFIG)
scene = pyluxcore.Scene()
scene.Parse(scene_properties)
session = pyluxcore.RenderSession(pyluxcore.RenderConfig(properties, scene))
start = time.perf_counter()
session.Start()
while not session.HasDone():
    time.sleep(0.1)  # WaitNewFrame does not wait here, and a CPU's members need its cores
    session.UpdateStats()
taken = time.perf_counter() - start
session.Stop()
pixels = np.empty((120, 160, 3), np.float32)
session.GetFilm().GetOutputFloat(pyluxcore.FilmOutputType.RGB_IMAGEPIPELINE, pixels, 0)
result("picture", pixels)
print("seconds", f"{taken:.4f}", flush=True)
sys.stdout.flush()
os._exit(0)  # its own end fails after results are written
