//go:build (amd64 || arm64) && !noasm

package rlxc

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/artifact"
)

// TestSavedForLevels saves programs for two levels in one file, which holds what they share once. Each level packs nothing; one
// that the file lacks takes the first.
func TestSavedForLevels(t *testing.T) {
	ctx, in := context.Background(), encoderInputs(2, 5)
	compile := func(m *Model, cpu string) *Program {
		p, err := m.Compile(ctx, CompileOptions{CPU: cpu, Threads: 1})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	levels := []string{"avx2", "generic", "avx512"}
	if runtime.GOARCH == "arm64" {
		levels = []string{"neon", "generic", "dotprod"}
	}
	model, path := builtin(t), filepath.Join(t.TempDir(), "levels.rlxc")
	first, second := compile(model, levels[0]), compile(model, levels[1])
	require.ErrorIs(t, first.Save(path, compile(model, levels[0])), ErrInput)
	one := map[string]int64{}
	for name, p := range map[string]*Program{"first": first, "second": second} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, p.Save(file))
		info, err := os.Stat(file)
		require.NoError(t, err)
		one[name] = info.Size()
	}
	require.NoError(t, first.Save(path, second))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), one["first"]+one["second"]-100<<10, "tables are the same for all levels")
	m, err := Open(path)
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.VerifyFile())
	for i, level := range levels {
		p := compile(m, level)
		if i < 2 {
			require.Equal(t, CompileStats{Level: O2}, p.Stats(), level)
		} else {
			require.Equal(t, "cpu/"+levels[0], p.Stats().PackedFor)
		}
	}
	s, err := compile(m, "generic").NewSession()
	require.NoError(t, err)
	defer s.Close()
	want, err := session(t, CompileOptions{CPU: "generic", Threads: 1}).Run(ctx, in)
	require.NoError(t, err)
	got, err := s.Run(ctx, in)
	require.NoError(t, err)
	for name := range want {
		require.Equal(t, want[name].Bytes(), got[name].Bytes(), name)
	}

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	header := data[32:][:binary.LittleEndian.Uint64(data[16:])]
	h := new(artifact.Header)
	require.NoError(t, proto.Unmarshal(header, h))
	h.Others[0].Ir = strings.Repeat(" ", len(h.Others[0].Ir))
	forged, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
	require.NoError(t, err)
	require.Equal(t, len(header), copy(header, forged))
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli)))
	require.NoError(t, os.WriteFile(path+"2", data, 0o644))
	m, err = Open(path + "2")
	require.NoError(t, err, "the first program is whole")
	defer m.Close()
	require.ErrorIs(t, m.VerifyFile(), ErrInvalidModel)
	_, err = m.Compile(ctx, CompileOptions{CPU: "generic"})
	require.ErrorIs(t, err, ErrInvalidModel)
}
