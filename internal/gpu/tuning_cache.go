package gpu

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/internal/files"
)

// A TuningCache holds the tilings that were quickest on one kind of device, by class. All devices of the kind in this process share
// it, so that a product is split up the same way wherever it runs.
type TuningCache struct {
	kind     string // names the device, its driver and the kernels
	mu       sync.Mutex
	tilings  map[string]fmt.Stringer
	file     map[string]string // what earlier processes chose
	searches int               // in this process
}

var tuningCaches = struct {
	sync.Mutex
	of map[string]*TuningCache
}{of: map[string]*TuningCache{}}

// TuningCacheOf returns the tuning cache of a kind of device.
func TuningCacheOf(kind string) *TuningCache {
	tuningCaches.Lock()
	defer tuningCaches.Unlock()
	c := tuningCaches.of[kind]
	if c == nil {
		c = &TuningCache{kind: kind, tilings: map[string]fmt.Stringer{}}
		for _, r := range readTilings() {
			if r.Device == kind {
				c.file = r.Tilings
			}
		}
		tuningCaches.of[kind] = c
	}
	return c
}

// ForgetTilings makes tuning caches as they are in a process that has just started. For tests.
func ForgetTilings() {
	tuningCaches.Lock()
	defer tuningCaches.Unlock()
	clear(tuningCaches.of)
}

// Searches is the number of classes that were tuned in this process. For tests.
func (c *TuningCache) Searches() int { return c.searches }

// Choose returns the tiling of a class of products, of which the usual one is the first of a list: what fastest finds, which is called once
// a class, or the usual one where it returns an error.
func Choose[T fmt.Stringer](c *TuningCache, class string, tilings []T, fastest func() (int, error)) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.tilings[class]; ok {
		return x.(T)
	}
	i := slices.IndexFunc(tilings, func(x T) bool { return x.String() == c.file[class] })
	if i < 0 {
		c.searches++
		var err error
		if i, err = fastest(); err != nil {
			i = 0
		} else {
			writeTiling(c.kind, class, tilings[i].String())
		}
	}
	c.tilings[class] = tilings[i]
	return tilings[i]
}

// The file of the tuning cache is a list of records, the one that was written last first. Whatever is wrong with it, there are none:
// the file is a help and never an error. Processes that write at once may lose tilings of each other, which are tuned again.

const (
	mostDevices = 8    // in the file
	mostClasses = 1024 // of a device
	mostBytes   = 1 << 20
)

type record struct {
	Device  string            `json:"device"`
	Tilings map[string]string `json:"tilings"`
}

// tilingsFile is where the file is; empty where the user has no cache.
func tilingsFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlxc", "tilings.json")
}

func readTilings() []record {
	info, err := os.Stat(tilingsFile())
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil
	}
	data, err := os.ReadFile(tilingsFile())
	var list []record
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// writeTiling adds a tiling to the file.
func writeTiling(device, class, tiling string) {
	path := tilingsFile()
	if info, err := os.Stat(path); path == "" || err == nil && !info.Mode().IsRegular() {
		return
	}
	list := readTilings()
	r := record{device, map[string]string{}}
	if i := slices.IndexFunc(list, func(r record) bool { return r.Device == device }); i >= 0 {
		if list[i].Tilings != nil && len(list[i].Tilings) < mostClasses {
			r = list[i]
		}
		list = slices.Delete(list, i, i+1)
	}
	r.Tilings[class] = tiling
	list = slices.Insert(list, 0, r)
	// Where it cannot be written, later processes choose again.
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	_ = files.ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(list[:min(len(list), mostDevices)])
	})
}
