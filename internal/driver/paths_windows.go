package driver

var places = []string{"nvcuda.dll"}

var compilerPlaces = []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"}
