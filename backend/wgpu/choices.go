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

// choices are the cuts that won the contests of one kind of device, by class. All devices of the kind in this process share
// them, so that a product is cut up the same way wherever it runs.
type choices struct {
	kind string // names the device, its driver, the library and the kernels
	mu   sync.Mutex
	cuts map[string]cut
	file map[string]string // what earlier processes chose
	held int               // contests, in this process
}

var (
	choicesMu sync.Mutex
	allKinds  = map[string]*choices{}
)

// choicesOf returns the choices of the devices that are identified so.
func choicesOf(identity string) *choices {
	kind := identity + ", kernels " + kernels()
	choicesMu.Lock()
	defer choicesMu.Unlock()
	c := allKinds[kind]
	if c == nil {
		c = &choices{kind: kind, cuts: map[string]cut{}}
		for _, r := range readChoices() {
			if r.Device == kind {
				c.file = r.Cuts
			}
		}
		allKinds[kind] = c
	}
	return c
}

// choose returns the cut of a class, after a contest if none has been held. Where it cannot be held, the usual cut wins.
func (c *choices) choose(class string, between func() contest, hold func(contest) (cut, error)) cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.cuts[class]; ok {
		return x
	}
	t := between()
	if i := slices.IndexFunc(t.cuts, func(x cut) bool { return x.String() == c.file[class] }); i >= 0 {
		c.cuts[class] = t.cuts[i]
		return t.cuts[i]
	}
	c.held++
	x, err := hold(t)
	if err != nil {
		x = t.cuts[0]
	} else {
		writeChoice(c.kind, class, x.String())
	}
	c.cuts[class] = x
	return x
}

// kernels is a fingerprint of the kernels that take part in contests: of all tiles, and of the text for one of each table.
var kernels = sync.OnceValue(func() string {
	h := sha256.New()
	fmt.Fprint(h, tiles, halfTiles, codeTiles)
	contests := []contest{codeContest(64, 64, 64)}
	for _, half := range []bool{false, true} {
		p := product{m: 64, n: 64, k: 64, half: half, narrow: half}
		t := p.usual().tile
		contests = append(contests, p.contest([]cut{{t, 1}, {t, 2}}, trialFloats))
	}
	for _, c := range contests {
		launches := c.prepare(&lab{})
		for _, x := range c.cuts {
			for _, l := range launches(x) {
				io.WriteString(h, l.shader.text())
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// The file of choices is a list of records, the one that was written last first. Whatever is wrong with it, there are none:
// the file is a help and never an error. Processes that write at once may lose choices of each other, which are made again.

const (
	mostDevices = 8    // in the file
	mostClasses = 1024 // of a device
	mostBytes   = 1 << 20
)

type record struct {
	Device string            `json:"device"`
	Cuts   map[string]string `json:"cuts"`
}

// choicesFile is where the file is; empty where the user has no cache.
func choicesFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rlxc", "wgpu-tiles.json")
}

func readChoices() []record {
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

// writeChoice adds a choice to the file.
func writeChoice(device, class, cut string) {
	path := choicesFile()
	if info, err := os.Stat(path); path == "" || err == nil && !info.Mode().IsRegular() {
		return
	}
	list := readChoices()
	r := record{device, map[string]string{}}
	if i := slices.IndexFunc(list, func(r record) bool { return r.Device == device }); i >= 0 {
		if list[i].Cuts != nil && len(list[i].Cuts) < mostClasses {
			r = list[i]
		}
		list = slices.Delete(list, i, i+1)
	}
	r.Cuts[class] = cut
	list = slices.Insert(list, 0, r)
	// Where it cannot be written, later processes choose again.
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	_ = tensor.ReplaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "\t")
		return e.Encode(list[:min(len(list), mostDevices)])
	})
}
