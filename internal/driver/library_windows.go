package driver

import "syscall"

var places = []string{"nvcuda.dll"}

var compilerPlaces = []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"}

func openLibrary(path string) (uintptr, error) {
	h, err := syscall.LoadLibrary(path)
	return uintptr(h), err
}

func findSymbol(handle uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(handle), name)
}
