// Package native opens wgpu-native at run time, without cgo, and provides the part of webgpu.h that compute needs as Go calls
// that cannot abort the process: what the library would panic on is checked first, and what it reports becomes an error.
package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// EnvLibrary names the environment variable that holds the path of the library; a path that does not open is an error.
const EnvLibrary = "RLXC_WGPU"

// version is the major version of wgpu-native whose structs this package mirrors.
const version = 29

// ErrNotFound: the library was not found.
var ErrNotFound = errors.New("no wgpu-native library was found: unpack a release archive of wgpu-native " +
	fmt.Sprint(version) + " beside the program, or `pip install wgpu==0.32.0` in the active environment, or set " + EnvLibrary +
	" to its path")

// procs are the functions in use; a field's name is the C name without "wgpu".
type procs struct {
	GetVersion                                                                           proc
	CreateInstance, InstanceEnumerateAdapters                                            proc
	AdapterGetInfo, AdapterGetLimits, AdapterHasFeature, AdapterRequestDevice            proc
	AdapterRelease                                                                       proc
	DeviceGetQueue, DevicePushErrorScope, DevicePopErrorScope, DevicePoll, DeviceDestroy proc
	DeviceCreateBuffer, DeviceCreateShaderModuleTrusted, DeviceCreateComputePipeline     proc
	DeviceCreateBindGroupLayout, DeviceCreatePipelineLayout, DeviceCreateBindGroup       proc
	DeviceCreateCommandEncoder, DeviceCreateQuerySet, DeviceRelease, QueueRelease        proc
	QueueWriteBuffer, QueueSubmit, QueueGetTimestampPeriod                               proc
	BufferMapAsync, BufferGetConstMappedRange, BufferUnmap, BufferRelease                proc
	CommandEncoderBeginComputePass, CommandEncoderCopyBufferToBuffer                     proc
	CommandEncoderFinish, CommandEncoderResolveQuerySet, CommandEncoderRelease           proc
	CommandBufferRelease                                                                 proc
	ComputePassEncoderSetPipeline, ComputePassEncoderSetBindGroup                        proc
	ComputePassEncoderDispatchWorkgroups, ComputePassEncoderWriteTimestamp               proc
	ComputePassEncoderEnd, ComputePassEncoderRelease                                     proc
	ShaderModuleRelease, ComputePipelineRelease, PipelineLayoutRelease                   proc
	BindGroupLayoutRelease, BindGroupRelease, QuerySetRelease                            proc
}

// A Library is wgpu-native, opened. It stays open as long as the process lives.
type Library struct {
	Path     string
	c        procs
	cb       callbacks
	instance uintptr
}

var (
	librariesMu sync.Mutex
	libraries   = map[string]*Library{}
)

// Open opens the library at path; with an empty path it looks, in this order, at the environment variable, beside the
// executable, in the user's cache directory, where the linker looks, and in an active Python environment.
func Open(path string) (*Library, error) {
	if path == "" {
		path = os.Getenv(EnvLibrary)
	}
	if path != "" {
		return open(path)
	}
	for _, p := range libraryPaths() {
		if strings.ContainsRune(p, filepath.Separator) {
			if _, err := os.Stat(p); err != nil {
				continue
			}
			return open(p)
		}
		if l, err := open(p); err == nil { // a name that the linker knows, or not
			return l, nil
		}
	}
	return nil, ErrNotFound
}

// fileNames are the names of the library on this system: as released, and as PyPI's wheel has it.
func fileNames() []string {
	switch runtime.GOOS {
	case "windows":
		return []string{"wgpu_native.dll", "wgpu_native-release.dll"}
	case "darwin":
		return []string{"libwgpu_native.dylib", "libwgpu_native-release.dylib"}
	}
	return []string{"libwgpu_native.so", "libwgpu_native-release.so"}
}

// libraryPaths lists where the library may be: paths, and bare names for the linker.
func libraryPaths() []string {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "rlxc"))
	}
	dirs = append(dirs, "")
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(env); root != "" {
			for _, pattern := range []string{filepath.Join("lib", "python3*"), "Lib"} {
				found, _ := filepath.Glob(filepath.Join(root, pattern, "site-packages", "wgpu", "resources"))
				dirs = append(dirs, found...)
			}
		}
	}
	var out []string
	for _, d := range dirs {
		for _, name := range fileNames() {
			out = append(out, filepath.Join(d, name))
		}
	}
	return out
}

func open(path string) (*Library, error) {
	librariesMu.Lock()
	defer librariesMu.Unlock()
	if l := libraries[path]; l != nil {
		return l, nil
	}
	handle, err := dynlib.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the wgpu-native library cannot be opened: %w", err)
	}
	l := &Library{Path: path}
	if err := l.link(handle); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v := uint32(l.c.GetVersion.call()) >> 24; v != version {
		return nil, fmt.Errorf("%s is wgpu-native %d; version %d is needed", path, v, version)
	}
	l.cb = newCallbacks()
	extras := &instanceExtras{chained: chained{sType: sTypeInstanceExtras}, backends: realBackends}
	if l.instance = l.c.CreateInstance.call(uintptr(unsafe.Pointer(&instanceDescriptor{next: unsafe.Pointer(extras)}))); l.instance == 0 {
		return nil, fmt.Errorf("%s could not create a WebGPU instance", path)
	}
	libraries[path] = l
	return l, nil
}

// Version is the library's version.
func (l *Library) Version() string {
	v := uint32(l.c.GetVersion.call())
	return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xff, v>>8&0xff, v&0xff)
}

// link resolves all functions, so that a missing one is an error now and no crash later.
func (l *Library) link(handle uintptr) error {
	if err := dynlib.Link(&l.c, "wgpu", func(name string) (uintptr, error) { return dynlib.Symbol(handle, name) }); err != nil {
		return fmt.Errorf("it is not wgpu-native %d: %w", version, err)
	}
	return nil
}
