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
	tilings  map[string]fmt.Stringer // tilings chosen in this process, by class; mu guards it
	file     map[string]string       // names of tilings chosen by earlier processes, by class; nil if there is no file
	searches int                     // number of classes that were tuned in this process; mu guards it
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

// ForgetTilings removes all tuning caches from this process, so that the next ones read the file again. For tests.
func ForgetTilings() {
	tuningCaches.Lock()
	defer tuningCaches.Unlock()
	clear(tuningCaches.of)
}

// Searches returns the number of classes that were tuned in this process. For tests.
func (c *TuningCache) Searches() int { return c.searches }

// Choose returns the tiling of a class of products. If no earlier call or process has chosen one, Choose calls fastest, which returns an
// index in tilings. If fastest fails, Choose returns the first tiling.
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

// The file of the tuning cache is a list of records, the most recently written first. An unreadable or invalid file counts as an empty
// list, because tilings can always be tuned again. For the same reason, processes that write at the same time may lose each other's
// tilings.

// Limits of the file, so that it cannot grow without bound.
const (
	mostDevices = 8       // records
	mostClasses = 1024    // tilings of a record
	mostBytes   = 1 << 20 // a larger file is not read
)

// A record holds the tilings of one kind of device, by class.
type record struct {
	Device  string            `json:"device"`
	Tilings map[string]string `json:"tilings"`
}

// tilingsFile returns the path of the file, and "" if the user has no cache folder.
func tilingsFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlxc", "tilings.json")
}

// readTilings returns the records of the file, and nil if it cannot be read.
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

// writeTiling adds a tiling to the file. It ignores errors: later processes then tune the class again.
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
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	_ = files.ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(list[:min(len(list), mostDevices)])
	})
}
