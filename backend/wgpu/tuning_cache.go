package wgpu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/tensor"
)

// A tuningCache holds the tilings that were quickest on one kind of device, by class. All devices of the kind in this process share
// them, so that a product is split up the same way wherever it runs.
type tuningCache struct {
	kind    string // names the device, its driver, the library and the kernels
	mu      sync.Mutex
	tilings map[string]tiling
	file    map[string]string // what earlier processes chose
	held    int               // searches, in this process
}

var (
	tuningCacheMu sync.Mutex
	allKinds      = map[string]*tuningCache{}
)

// tuningCacheOf returns the tuning cache of the devices that are identified so.
func tuningCacheOf(identity string) *tuningCache {
	kind := identity + ", kernels " + kernels()
	tuningCacheMu.Lock()
	defer tuningCacheMu.Unlock()
	c := allKinds[kind]
	if c == nil {
		c = &tuningCache{kind: kind, tilings: map[string]tiling{}}
		for _, r := range readTilings() {
			if r.Device == kind {
				c.file = r.Tilings
			}
		}
		allKinds[kind] = c
	}
	return c
}

// choose returns the tiling of a class, timing the candidates if it is not known. Where they cannot be timed, it is the usual tiling.
func (c *tuningCache) choose(class string, between func() candidates, hold func(candidates) (tiling, error)) tiling {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.tilings[class]; ok {
		return x
	}
	t := between()
	if i := slices.IndexFunc(t.tilings, func(x tiling) bool { return x.String() == c.file[class] }); i >= 0 {
		c.tilings[class] = t.tilings[i]
		return t.tilings[i]
	}
	c.held++
	x, err := hold(t)
	if err != nil {
		x = t.tilings[0]
	} else {
		writeTiling(c.kind, class, x.String())
	}
	c.tilings[class] = x
	return x
}

// kernels is a fingerprint of the kernels that are candidates: of all tiles, and of the text for one of each table.
var kernels = sync.OnceValue(func() string {
	h := sha256.New()
	fmt.Fprint(h, tiles, halfTiles, coopTiles, quantizedTiles)
	sets := []candidates{quantizedCandidates(64, 64, 64)}
	for _, p := range []product{{}, {half: true, narrow: true}, {half: true, narrow: true, coop: true}} {
		p.M, p.N, p.K = 64, 64, 64
		t := p.usual().tile
		sets = append(sets, p.candidates([]tiling{{t, 1}, {t, 2}}, trialFloats))
	}
	for _, c := range sets {
		launches := c.prepare(&tuner{})
		for _, x := range c.tilings {
			for _, l := range launches(x) {
				io.WriteString(h, l.shader.text())
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

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

// choicesFile is where the file is; empty where the user has no cache.
func choicesFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlxc", "wgpu-tiles.json")
}

func readTilings() []record {
	info, err := os.Stat(choicesFile())
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil
	}
	data, err := os.ReadFile(choicesFile())
	var list []record
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// writeTiling adds a tiling to the file.
func writeTiling(device, class, tiling string) {
	path := choicesFile()
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
	_ = tensor.ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(list[:min(len(list), mostDevices)])
	})
}
