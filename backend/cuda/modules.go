package cuda

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/rlxc/rlxc/backend/cuda/driver"
	"github.com/rlxc/rlxc/tensor"
)

// archive holds the kernels as PTX text, a file each: NAME.ptx. The generator in _gen writes it.
//
//go:embed kernels.zip
var archive []byte

var openArchive = sync.OnceValues(func() (*zip.Reader, error) { return zip.NewReader(bytes.NewReader(archive), int64(len(archive))) })

// ptxText returns the text of a kernel.
func ptxText(name string) (string, error) {
	z, err := openArchive()
	if err != nil {
		return "", err
	}
	f, err := z.Open(name + ".ptx")
	if err != nil {
		return "", fmt.Errorf("no kernel %s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

// modules are the kernels of a device that were needed so far. Machine code that the driver made is kept in a folder of the
// user's, by the device's and the driver's version and the kernel's text.
type modules struct {
	ctx    *driver.Context
	folder string // empty where nothing is kept

	mu     sync.Mutex
	loaded map[string]*kernel
}

// A kernel is one that is loaded, and the dynamic shared memory that it may have.
type kernel struct {
	module *driver.Module
	f      driver.Function
	shared int
}

// cacheFolder is where machine code for a device is kept; empty where the user has no cache.
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
	var missing []string
	for _, l := range launches {
		if _, seen := shared[l.kernel]; !seen && m.loaded[l.kernel] == nil {
			missing = append(missing, l.kernel)
		}
		shared[l.kernel] = max(shared[l.kernel], l.grid.Shared)
	}
	codes, errs := make([][]byte, len(missing)), make([]error, len(missing))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, name := range missing {
		wg.Go(func() {
			limit <- struct{}{}
			codes[i], errs[i] = m.code(name)
			<-limit
		})
	}
	wg.Wait()
	for i, name := range missing {
		if errs[i] != nil {
			return errs[i]
		}
		module, err := m.ctx.Load(codes[i])
		if err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		f, err := module.Function(name)
		if err != nil {
			module.Unload()
			return err
		}
		m.loaded[name] = &kernel{module: module, f: f}
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

// usualShared is the dynamic shared memory that every kernel may have.
const usualShared = 48 << 10

// startsEarly reports whether a device can start a kernel before the one ahead of it has ended, in graphs too.
func startsEarly(i *driver.Info) bool { return i.Capability() >= 90 && i.Driver >= 12030 }

// marks are what the generator and common.cuh put where a kernel lets the next one start and where it waits for the last.
var (
	earlyMarks = strings.NewReplacer(`.pragma "start next";`, "griddepcontrol.launch_dependents;", `.pragma "wait for last";`, "griddepcontrol.wait;",
		".target sm_75\n", ".target sm_90\n", ".target sm_80\n", ".target sm_90\n")
	noMarks = strings.NewReplacer(`.pragma "start next";`, "", `.pragma "wait for last";`, "")
)

// code returns the machine code of a kernel.
func (m *modules) code(name string) ([]byte, error) {
	text, err := ptxText(name)
	if err != nil {
		return nil, err
	}
	if startsEarly(&m.ctx.Info) {
		text = earlyMarks.Replace(text)
	} else {
		text = noMarks.Replace(text)
	}
	sum := sha256.Sum256([]byte(text))
	path := filepath.Join(m.folder, name+"-"+hex.EncodeToString(sum[:8]))
	if m.folder != "" {
		if code, err := os.ReadFile(path); err == nil && len(code) > 0 {
			return code, nil
		}
	}
	leave, err := m.ctx.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	code, err := m.ctx.Compile(name, text)
	if err == nil && m.folder != "" { // where it cannot be kept, the next process compiles it again
		_ = os.MkdirAll(m.folder, 0o755)
		_ = tensor.ReplaceFile(path, func(w io.Writer) error {
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
