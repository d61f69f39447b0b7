//go:build !windows

package drivertest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// An Emulator runs kernels on the processor. They are compiled as C++ (_gen/emulated), but for products by Hopper's copy engine.
type Emulator struct {
	kernels   map[string]emulated
	Backwards bool // threads run from the last to the first
}

type emulated struct{ launch, kernel uintptr }

// emulators are the emulators of this process, by the folder of their sources. They are kept, because compiling takes long.
var emulators = map[string]*Emulator{}

// NewEmulator compiles the sources in a folder with CUDA's headers in another folder. It keeps the libraries in the folder of temporary
// files, under a name that is a digest of everything that was compiled, so that later processes need not compile.
func NewEmulator(t testing.TB, sources, headers string) *Emulator {
	t.Helper()
	if headers == "" {
		t.Fatal("no folder with the headers of CUDA is named")
	}
	if e := emulators[sources]; e != nil {
		return e
	}
	files, err := filepath.Glob(filepath.Join(sources, "*.cu"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "wgmma.cu" })
	dir, err := librariesOf(sources, headers)
	if err != nil {
		t.Fatal(err)
	}
	e := &Emulator{kernels: map[string]emulated{}}
	libraries, errs := make([]string, len(files)), make([]error, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		libraries[i] = filepath.Join(dir, filepath.Base(f)+".so")
		if _, err := os.Stat(libraries[i]); err == nil {
			continue
		}
		wg.Go(func() {
			unfinished := fmt.Sprintf("%s.%d", libraries[i], os.Getpid())
			text, err := exec.Command("g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-extern-tls-init",
				"-ffp-contract=off", "-I", headers, "-I", sources,
				"-include", filepath.Join(sources, "emulated", "cuda.h"), "-x", "c++", f, "-o", unfinished).CombinedOutput()
			if err == nil {
				err = os.Rename(unfinished, libraries[i])
			}
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

// librariesOf is the folder for what is compiled of the sources as they are now.
func librariesOf(sources, headers string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, headers)
	if err := filepath.WalkDir(sources, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		fmt.Fprintln(sum, file, len(text))
		sum.Write(text)
		return err
	}); err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("rlxc-emulated-%x", sum.Sum(nil)[:8]))
	return dir, os.MkdirAll(dir, 0o700)
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
