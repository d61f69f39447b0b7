//go:build !windows

package drivertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// An Emulator runs kernels on the processor. They are compiled as C++ (_gen/emulated), but for those of Hopper's matrix units.
type Emulator struct {
	kernels   map[string]emulated
	Backwards bool // threads take their turns from the last to the first
}

type emulated struct{ launch, kernel uintptr }

// emulators are those of this process by the folder of their sources: compiling them takes long.
var emulators = map[string]*Emulator{}

// NewEmulator compiles the sources in a folder, with the headers of CUDA in another, once.
func NewEmulator(t testing.TB, sources, headers string) *Emulator {
	t.Helper()
	if e := emulators[sources]; e != nil {
		return e
	}
	files, err := filepath.Glob(filepath.Join(sources, "*.cu"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "wgmma.cu" })
	e, dir := &Emulator{kernels: map[string]emulated{}}, t.TempDir()
	libraries, errs := make([]string, len(files)), make([]error, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		libraries[i] = filepath.Join(dir, filepath.Base(f)+".so")
		wg.Go(func() {
			text, err := exec.Command("g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-extern-tls-init",
				"-ffp-contract=off", "-I", headers, "-I", sources,
				"-include", filepath.Join(sources, "emulated", "cuda.h"), "-x", "c++", f, "-o", libraries[i]).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w\n%s", f, err, text)
			}
		})
	}
	wg.Wait()
	for i, library := range libraries {
		if errs[i] == nil {
			errs[i] = e.add(library)
		}
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
	}
	emulators[sources] = e
	return e
}

// add finds the kernels of a library.
func (e *Emulator) add(library string) error {
	h, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	launch, err := purego.Dlsym(h, "emulate")
	if err != nil {
		return err
	}
	names, err := exec.Command("nm", "-D", "--defined-only", library).Output()
	for _, line := range strings.Split(string(names), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "T" {
			kernel, err := purego.Dlsym(h, f[2])
			if err != nil {
				return err
			}
			e.kernels[f[2]] = emulated{launch, kernel}
		}
	}
	return err
}

// Launch runs a kernel.
func (e *Emulator) Launch(l Launch) {
	k, ok := e.kernels[l.Kernel]
	if !ok {
		panic(fmt.Sprintf("kernel %s is not emulated", l.Kernel))
	}
	backwards := uintptr(0)
	if e.Backwards {
		backwards = 1
	}
	purego.SyscallN(k.launch, k.kernel, uintptr(unsafe.Pointer(&l.Blocks)), uintptr(unsafe.Pointer(&l.Params[0])), uintptr(len(l.Params)),
		uintptr(l.Threads), backwards)
}
