package files

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func mapPath(t *testing.T, path string) (*Mapping, error) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	return Map(f)
}

func TestMappingLivesUntilItsLastUserCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
	m, err := mapPath(t, path)
	require.NoError(t, err)
	second := m.Retain()
	require.NoError(t, m.Close())
	require.Equal(t, "weights", string(second.Bytes()))
	require.NoError(t, second.Close())
	require.Nil(t, m.Bytes())
	require.ErrorIs(t, m.Close(), os.ErrClosed)
	require.Panics(t, func() { m.Retain() })
}

func TestMappingOfNothingAndOfAFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	m, err := mapPath(t, path)
	require.NoError(t, err)
	require.Empty(t, m.Bytes())
	require.NoError(t, m.Close())
	_, err = mapPath(t, dir)
	require.ErrorContains(t, err, "not a regular file")
}

func TestEvict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	want := bytes.Repeat([]byte("weights "), 1<<15)
	require.NoError(t, os.WriteFile(path, want, 0o600))
	m, err := mapPath(t, path)
	require.NoError(t, err)
	defer m.Close()
	for _, part := range [][]byte{m.Bytes(), m.Bytes()[5000:5001], m.Bytes()[len(want)-1:]} {
		require.True(t, m.Evict(part))
		require.Equal(t, want, m.Bytes(), "the pages come back")
	}
	for _, part := range [][]byte{nil, m.Bytes()[:0], want} {
		require.False(t, m.Evict(part))
	}
	kept := InMemory(want)
	require.True(t, kept.Evict(want[3:]))
	require.Equal(t, byte('w'), want[8], "ordinary memory stays")
}

func TestReleasePages(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = 7
	}
	ReleasePages(b[100 : 1<<19])
	require.EqualValues(t, 7, b[99])
	require.EqualValues(t, 7, b[1<<19])
	if runtime.GOOS == "linux" {
		require.Zero(t, b[1<<18], "the pages are gone")
	}
	b[1<<18] = 9
	require.EqualValues(t, 9, b[1<<18], "and can be used again")
	ReleasePages(nil)
	ReleasePages(b[:10])
}
