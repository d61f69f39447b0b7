package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// cacheIn makes dir the user's cache, on whatever system.
func cacheIn(t *testing.T, dir string) {
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

// A name is a tiling.
type name string

func (n name) String() string { return string(n) }

// TestBrokenTuningCache starts with files that are no good: they do not matter, and are replaced where that is possible.
func TestBrokenTuningCache(t *testing.T) {
	const kind, class = "a device, kernels 1", "f32 by f32: 1 of 32x132x36"
	usual, won := name("32x64/1"), name("64x64/2")
	// held is how many searches it takes to choose in a new process.
	held := func(what string) int {
		ForgetTilings()
		c := TuningCacheOf(kind)
		for range 2 { // the second time it is known
			require.Equal(t, won, Choose(c, class, []name{usual, won}, func() (int, error) { return 1, nil }), what)
		}
		return c.Searches()
	}
	one := func(device, tiling string) string {
		data, err := json.Marshal([]record{{device, map[string]string{class: tiling}}})
		require.NoError(t, err)
		return string(data)
	}
	good := one(kind, string(won))
	for name, c := range map[string]struct {
		text string
		held int
	}{
		"none":                 {"", 1},
		"good":                 {good, 0},
		"cut off":              {good[:40], 1},
		"another device":       {one("another", string(won)), 1},
		"other kernels":        {one(kind+"0", string(won)), 1},
		"no such tiling":       {one(kind, "1x1x1_1x1/1"), 1},
		"not for this product": {one(kind, "64x64/16"), 1},
		"no tilings":           {`[{"device": "` + kind + `"}]`, 1},
		"something else":       {`{"tiles": 5}`, 1},
		"null":                 {"null", 1},
		"too large":            {good + strings.Repeat(" ", mostBytes), 1},
	} {
		cacheIn(t, t.TempDir())
		path := tilingsFile()
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o644))
		require.Equal(t, c.held, held(name), name)
		require.Zero(t, held(name), "%s: it has been replaced", name)
		files, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, files, 1, "%s: what was written on the way is gone", name)
	}
	for name, spoil := range map[string]func(path string) error{
		"its folder is a file": func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o644) },
		"it is a folder":       func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o755) },
		"no folder can be made": func(string) error {
			cacheIn(t, "/proc/none") // where root cannot write either
			return nil
		},
	} {
		cacheIn(t, t.TempDir())
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(tilingsFile())), 0o755))
		require.NoError(t, spoil(tilingsFile()), name)
		for range 2 {
			require.Equal(t, 1, held(name), name)
		}
	}
}

// TestTuningCacheFile holds that the file is bounded, and whole the one that writes it at once.
func TestTuningCacheFile(t *testing.T) {
	cacheIn(t, t.TempDir())
	for i := range mostDevices + 5 {
		writeTiling(fmt.Sprint("device ", i), "class", "tiling")
	}
	list := readTilings()
	require.Len(t, list, mostDevices)
	require.Equal(t, fmt.Sprint("device ", mostDevices+4), list[0].Device)
	full := record{"full", map[string]string{}}
	for i := range mostClasses {
		full.Tilings[fmt.Sprint("class ", i)] = "tiling"
	}
	data, err := json.Marshal([]record{full})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tilingsFile(), data, 0o644))
	writeTiling("full", "one more", "tiling")
	require.Len(t, readTilings()[0].Tilings, 1)

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				writeTiling(fmt.Sprint("device ", i%3), fmt.Sprint("class ", i, " ", j), "tiling")
				if len(readTilings()) == 0 {
					t.Error("the file is broken")
				}
			}
		})
	}
	wg.Wait()
}

// TestFastest holds that the quickest candidate wins, that hopeless ones run once, and that an error ends the race.
func TestFastest(t *testing.T) {
	took := []time.Duration{9, 5, 20, 5}
	runs := make([]int, len(took))
	i, err := Fastest(len(took), func(i int) (time.Duration, error) { runs[i]++; return took[i], nil })
	require.NoError(t, err)
	require.Equal(t, 1, i)
	require.Equal(t, 1, runs[0])
	require.Equal(t, 1, runs[2])
	require.Greater(t, runs[1], leastRounds)
	lost := errors.New("lost")
	_, err = Fastest(1, func(int) (time.Duration, error) { return 0, lost })
	require.ErrorIs(t, err, lost)
}

// TestClassesOfProducts: which products share a tiling, and on what they are timed.
func TestClassesOfProducts(t *testing.T) {
	for _, c := range []struct {
		product Product
		class   Product
		sample  Product // of the product
	}{
		{Product{M: 1, N: 5, K: 7}, Product{M: 1, N: 5, K: 7}, Product{M: 1, N: 5, K: 7}},
		{Product{M: 5, N: 5, K: 7, Lead: tensor.Shape{1}}, Product{M: 8, N: 5, K: 7}, Product{M: 5, N: 5, K: 7, Lead: tensor.Shape{1}}},
		{Product{M: 8, N: 5, K: 7, Lead: tensor.Shape{3, 1}}, Product{M: 8, N: 5, K: 7, Lead: tensor.Shape{4}},
			Product{M: 8, N: 5, K: 7, Lead: tensor.Shape{3}}},
		{Product{M: 1 << 14, N: 1 << 10, K: 7}, Product{M: 1 << 14, N: 1 << 10, K: 7}, Product{M: 1 << 14, N: 1 << 10, K: 7}},
		{Product{M: 1<<14 + 1, N: 9, K: 1 << 10}, Product{M: 1 << 15, N: 9, K: 1 << 10}, Product{M: 1 << 13, N: 9, K: 1 << 10}},
		{Product{M: 1 << 12, N: 9, K: 1 << 10, Lead: tensor.Shape{8}}, Product{M: 1 << 12, N: 9, K: 1 << 10, Lead: tensor.Shape{8}},
			Product{M: 1 << 12, N: 9, K: 1 << 10, Lead: tensor.Shape{4}}},
		{Product{M: 1 << 15, N: 9, K: 1 << 10, Lead: tensor.Shape{2}}, Product{M: 1 << 15, N: 9, K: 1 << 10, Lead: tensor.Shape{2}},
			Product{M: 1 << 14, N: 9, K: 1 << 10, Lead: tensor.Shape{1}}},
	} {
		require.Equal(t, c.class, c.product.Class())
		require.Equal(t, c.sample, c.product.Sample())
	}
	require.Equal(t, 2*3*5*6*7, (&Product{M: 5, N: 6, K: 7, Lead: tensor.Shape{3}}).Flops())
}
