package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoundsReachTheDisk holds that a round is on the disk when commit returns, and that a round which does not reach it is an error.
func TestRoundsReachTheDisk(t *testing.T) {
	real := toDisk
	defer func() { toDisk = real }()
	file := filepath.Join(t.TempDir(), "v.npy")
	r, err := openResults(file, "run", &matrix{1, "float32", false}, nil)
	require.NoError(t, err)
	defer r.pause()
	size, full := int64(0), errors.New("the disk is full")
	var fails error
	toDisk = func(f *os.File) error {
		info, err := f.Stat()
		require.NoError(t, err)
		size = info.Size()
		return errors.Join(fails, real(f))
	}
	for round := range 3 {
		require.NoError(t, r.add(item{}, &embedding{Vector: []float32{1}}))
		require.NoError(t, r.commit(false))
		require.EqualValues(t, r.head+(round+1)*(frameHead+4), size)
	}
	fails = full
	require.ErrorIs(t, r.commit(false), full)
}

// TestEmptyPartIsRemoved holds that a run without a result leaves nothing that the next command would set aside.
func TestEmptyPartIsRemoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "v.npy")
	for range 2 { // a new part, and one that is empty
		r, err := openResults(file, "run", &matrix{1, "float32", false}, nil)
		require.NoError(t, err)
		require.NoError(t, r.pause())
		require.NoFileExists(t, file+".part")
		require.NoError(t, os.WriteFile(file+".part", nil, 0o600))
	}
}

// TestDamagedPart holds that rounds of a part that do not check are not taken over, whatever is wrong with them, and those before are.
func TestDamagedPart(t *testing.T) {
	const size = 2
	begun := func(t *testing.T) string {
		file := filepath.Join(t.TempDir(), "v.npy")
		r, err := openResults(file, "run", &matrix{size, "float32", false}, nil)
		require.NoError(t, err)
		for range 3 {
			for i := range itemsAtOnce {
				require.NoError(t, r.add(item{}, &embedding{Vector: []float32{float32(i), 1}}))
			}
			require.NoError(t, r.commit(false))
		}
		require.NoError(t, r.pause())
		return file
	}
	const round = frameHead + itemsAtOnce*4*size
	for name, c := range map[string]struct {
		damage func(data []byte) []byte
		done   int
		lost   bool
	}{
		"whole":         {func(d []byte) []byte { return d }, 3, false},
		"a byte":        {func(d []byte) []byte { d[len(d)-round-100] ^= 1; return d }, 1, true},
		"zeroed":        {func(d []byte) []byte { clear(d[len(d)-4096:]); return d }, 2, true},
		"a head":        {func(d []byte) []byte { d[len(d)-round] ^= 1; return d }, 2, true},
		"cut":           {func(d []byte) []byte { return d[:len(d)-1] }, 2, true},
		"cut in a head": {func(d []byte) []byte { return d[:len(d)-round+3] }, 2, true},
		"a long length": {func(d []byte) []byte { copy(d[len(d)-round+8:], bytes.Repeat([]byte{0xff}, 8)); return d }, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := begun(t)
			data, err := os.ReadFile(file + ".part")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file+".part", c.damage(data), 0o600))
			r, err := openResults(file, "run", &matrix{size, "float32", false}, nil)
			require.NoError(t, err)
			require.Equal(t, c.done*itemsAtOnce, r.done)
			require.Equal(t, c.lost, r.lost)
			for range 3 - c.done {
				for i := range itemsAtOnce {
					require.NoError(t, r.add(item{}, &embedding{Vector: []float32{float32(i), 1}}))
				}
				require.NoError(t, r.commit(false))
			}
			require.NoError(t, r.finish())
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			whole := begun(t)
			w, err := openResults(whole, "run", &matrix{size, "float32", false}, nil)
			require.NoError(t, err)
			require.NoError(t, w.finish())
			want, err := os.ReadFile(whole)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}
