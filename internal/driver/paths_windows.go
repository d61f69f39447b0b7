package driver

var libraryPaths = []string{"nvcuda.dll"}

var compilerPaths = []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"}
