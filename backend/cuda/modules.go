package cuda

import (
	"archive/tar"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/files"
)

// kernels holds two solid archives for each source in _gen: SOURCE.ptx.tar.zst with its kernels' PTX, and SOURCE.cubin.tar.zst with
// machine code for Hopper. In resources.txt each line is a kernel with its source, and sources.sum has the hash of the sources.
// The generator in _gen writes them.
//
//go:generate go -C _gen run . -only none
//go:embed kernels
var kernels embed.FS

// sources has the source of every kernel.
var sources = sync.OnceValue(func() map[string]string {
	table, err := kernels.ReadFile("kernels/resources.txt")
	if err != nil {
		panic(err)
	}
	m := map[string]string{}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		m[f[0]] = f[1]
	}
	return m
})

// unpacked has what archives hold, by their paths, of those that were needed: func() (map[string][]byte, error).
var unpacked sync.Map

// archived returns the PTX or the machine code of a kernel: kind is ptx or cubin.
func archived(name, kind string) ([]byte, error) {
	source, ok := sources()[name]
	if !ok {
		return nil, fmt.Errorf("no kernel %s", name)
	}
	path := fmt.Sprintf("kernels/%s.%s.tar.zst", source, kind)
	f, _ := unpacked.LoadOrStore(path, sync.OnceValues(func() (map[string][]byte, error) { return unpack(path) }))
	files, err := f.(func() (map[string][]byte, error))()
	if err != nil {
		return nil, err
	}
	if files[name] == nil {
		return nil, fmt.Errorf("no kernel %s in %s", name, path)
	}
	return files[name], nil
}

// unpack reads an archive.
func unpack(path string) (map[string][]byte, error) {
	packed, err := kernels.Open(path)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	files := map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if files[h.Name], err = io.ReadAll(t); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// ptxSource returns the PTX of a kernel.
func ptxSource(name string) (string, error) {
	data, err := archived(name, "ptx")
	return string(data), err
}

// modules are the kernels of a device that were needed so far. Machine code that the driver made is cached in a folder of the
// user, by the versions of the device and the driver and by the source of the kernel.
type modules struct {
	ctx    *driver.Context
	folder string // empty without a cache

	mu     sync.Mutex
	loaded map[string]*kernel
}

// A kernel is one that is loaded, and the dynamic shared memory that it may have.
type kernel struct {
	module *driver.Module
	f      driver.Function
	shared int
}

// cacheFolder is the folder with the machine code for a device; empty if the user has no cache.
func cacheFolder(i driver.Info) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlxc", fmt.Sprintf("cuda-sm%d-driver%d", i.Capability(), i.Driver))
}

// ready finds the functions of launches. What has to be compiled is compiled side by side.
func (m *modules) ready(launches []*launch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	shared := map[string]int{}
	var missing []*launch
	for _, l := range launches {
		if _, seen := shared[l.kernel]; !seen && m.loaded[l.kernel] == nil {
			missing = append(missing, l)
		}
		shared[l.kernel] = max(shared[l.kernel], l.grid.Shared)
	}
	kernels, errs := make([]*kernel, len(missing)), make([]error, len(missing))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, l := range missing {
		wg.Go(func() {
			limit <- struct{}{}
			kernels[i], errs[i] = m.load(l)
			<-limit
		})
	}
	wg.Wait()
	for i, l := range missing {
		if kernels[i] != nil {
			m.loaded[l.kernel] = kernels[i]
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for name, size := range shared {
		if k := m.loaded[name]; size > max(k.shared, usualShared) {
			if err := m.ctx.AllowShared(k.f, size); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
			k.shared = size
		}
	}
	for _, l := range launches {
		l.f = m.loaded[l.kernel].f
	}
	return nil
}

// usualShared is the dynamic shared memory that every kernel may use in addition to the shared memory that it declares.
const usualShared = 48<<10 - declaredShared

// declaredShared is an upper bound of the shared memory that a kernel declares, if no table lists it.
const declaredShared = 2 << 10

// startsEarly reports whether a device can start a kernel before the one ahead of it has ended, in graphs too.
func startsEarly(i *driver.Info) bool { return i.Capability() >= 90 && i.Driver >= 12030 }

// marks are what the generator and common.cuh put where a kernel lets the next one start and where it waits for the last.
var (
	earlyMarks = strings.NewReplacer(`.pragma "start next";`, "griddepcontrol.launch_dependents;", `.pragma "wait for last";`,
		"griddepcontrol.wait;",
		".target sm_75\n", ".target sm_90\n", ".target sm_80\n", ".target sm_90\n")
	noMarks = strings.NewReplacer(`.pragma "start next";`, "", `.pragma "wait for last";`, "")
)

// runsArchived reports whether a device can run the machine code of the archive: Hopper, with a driver of the compiler's generation.
func runsArchived(i *driver.Info) bool { return i.Capability() == 90 && i.Driver >= 13000 }

// load loads the kernel of a launch: the archive's machine code where the device takes it, and otherwise what the driver compiles.
func (m *modules) load(l *launch) (*kernel, error) {
	leave, err := m.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	name := l.kernel
	if l.user != nil {
		name, _, _ = strings.Cut(name, "\n")
		code, err := m.cached(name, l.user.source, l.user.compile)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
		return m.start(userEntry, code)
	}
	if runsArchived(&m.ctx.Info) {
		code, err := archived(name, "cubin")
		if err != nil {
			return nil, err
		}
		if k, err := m.start(name, code); err == nil {
			return k, nil
		}
	}
	code, err := m.compiled(name)
	if err != nil {
		return nil, err
	}
	return m.start(name, code)
}

// start gives machine code to the driver.
func (m *modules) start(name string, code []byte) (*kernel, error) {
	module, err := m.ctx.Load(code)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	f, err := module.Function(name)
	if err != nil {
		module.Unload()
		return nil, err
	}
	return &kernel{module: module, f: f}, nil
}

// compiled returns the machine code that the driver compiles from a kernel's PTX, or compiled before.
func (m *modules) compiled(name string) ([]byte, error) {
	ptx, err := ptxSource(name)
	if err != nil {
		return nil, err
	}
	if startsEarly(&m.ctx.Info) {
		ptx = earlyMarks.Replace(ptx)
	} else {
		ptx = noMarks.Replace(ptx)
	}
	return m.cached(name, ptx, (*driver.Context).Compile)
}

// cached returns the machine code of a source, from the folder of the user or new.
func (m *modules) cached(name, source string, compile func(c *driver.Context, name, source string) ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256([]byte(source))
	path := filepath.Join(m.folder, name+"-"+hex.EncodeToString(sum[:8]))
	if m.folder != "" {
		if code, err := os.ReadFile(path); err == nil && len(code) > 0 {
			return code, nil
		}
	}
	code, err := compile(m.ctx, name, source)
	if err == nil && m.folder != "" { // if it cannot be written, the next process compiles it again
		_ = os.MkdirAll(m.folder, 0o755)
		_ = files.ReplaceFile(path, func(w io.Writer) error {
			_, err := w.Write(code)
			return err
		})
	}
	return code, err
}

func (m *modules) unload() {
	for _, k := range m.loaded {
		k.module.Unload()
	}
	clear(m.loaded)
}
