//go:build !windows

package driver

import (
	"runtime"

	"github.com/ebitengine/purego"
)

var places = []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

var compilerPlaces = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}

func openLibrary(path string) (uintptr, error) {
	runtime.LockOSThread() // an error's text belongs to the thread that saw it
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func findSymbol(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }
