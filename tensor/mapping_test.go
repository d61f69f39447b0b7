package tensor

import (
	"os"
	"path/filepath"
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
