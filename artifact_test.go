package rlxc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/quantize"
	"github.com/rlxc/rlxc/tensor"
)

// saved compiles the embedded encoder into a file.
func saved(t testing.TB, o CompileOptions) string {
	t.Helper()
	p, err := builtin(t).Compile(context.Background(), o)
	require.NoError(t, err)
	defer p.Close()
	path := filepath.Join(t.TempDir(), "model.rlxc")
	require.NoError(t, p.Save(path))
	return path
}

// TestSavedProgram opens what was saved: the same bits come out, and nothing is packed again but for another level of
// instructions.
func TestSavedProgram(t *testing.T) {
	for _, level := range []Level{O0, O2} {
		in := encoderInputs(2, 16)
		want, err := session(t, CompileOptions{Level: level}).Run(context.Background(), in)
		require.NoError(t, err)
		path := saved(t, CompileOptions{Level: level})
		m, err := Open(path)
		require.NoError(t, err)
		defer m.Close()
		require.NoError(t, m.VerifyFile())
		require.Equal(t, builtin(t).Inputs(), m.Inputs())
		require.Equal(t, builtin(t).Outputs(), m.Outputs())
		p, err := m.Compile(context.Background(), CompileOptions{Level: level, Verify: true})
		require.NoError(t, err)
		defer p.Close()
		stats := p.Stats()
		require.Equal(t, CompileStats{Level: level}, stats)
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		got, err := s.Run(context.Background(), in)
		require.NoError(t, err)
		for name := range want {
			require.Equal(t, want[name].Bytes(), got[name].Bytes(), name)
		}
	}
}

// TestSavedForAnotherLevel packs the weights again.
func TestSavedForAnotherLevel(t *testing.T) {
	in := encoderInputs(2, 5)
	want, err := session(t, CompileOptions{CPU: "generic"}).Run(context.Background(), in)
	require.NoError(t, err)
	m, err := Open(saved(t, CompileOptions{}))
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(context.Background(), CompileOptions{CPU: "generic"})
	require.NoError(t, err)
	defer p.Close()
	again := p.Stats()
	require.Equal(t, again.Packed > 0, strings.HasPrefix(again.PackedFor, "cpu/"), again)
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	got, err := s.Run(context.Background(), in)
	require.NoError(t, err)
	for name := range want {
		near(t, got[name], want[name], 1e-6, 1e-5)
	}
}

// TestDamagedFile flips a bit at many positions and cuts the file at many lengths: opening, or checking the sections, names
// the damage, and nothing panics.
func TestDamagedFile(t *testing.T) {
	path := saved(t, CompileOptions{})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	damaged := filepath.Join(t.TempDir(), "damaged.rlxc")
	open := func(data []byte) error {
		require.NoError(t, os.WriteFile(damaged, data, 0o644))
		m, err := Open(damaged)
		if err != nil {
			return err
		}
		defer m.Close()
		return m.VerifyFile()
	}
	require.NoError(t, open(whole))
	padding := 0
	for at := 0; at < len(whole); at += 1 + at/9 {
		data := append([]byte{}, whole...)
		data[at] ^= 1 << (at % 8)
		if err := open(data); err == nil {
			padding++ // zeros between sections mean nothing
			require.Zero(t, whole[at])
		} else {
			require.ErrorIs(t, err, ErrInvalidModel, "bit %d of byte %d", at%8, at)
		}
		err := open(whole[:at])
		require.ErrorIs(t, err, ErrInvalidModel, "cut to %d bytes", at)
	}
	require.Less(t, padding, 5)
	require.ErrorContains(t, open(append(append([]byte{}, whole...), 0)), "1 more than it declares")
}

// TestReplacedWhileOpen renames another file to the name of one that is mapped, which is how to replace it, and then cuts a
// mapped file short, which is not: reading it is an error, in whatever thread.
func TestReplacedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it keeps files that are mapped as they are
	}
	in := encoderInputs(2, 16)
	for threads := 1; threads <= min(2, runtime.NumCPU()); threads++ {
		path := saved(t, CompileOptions{})
		run := func() (*Model, *Program, *Session) {
			m, err := Open(path)
			require.NoError(t, err)
			p, err := m.Compile(context.Background(), CompileOptions{Threads: threads})
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			_, err = s.Run(context.Background(), in)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, errors.Join(s.Close(), p.Close(), m.Close())) })
			return m, p, s
		}
		_, _, before := run()
		require.NoError(t, os.Rename(saved(t, CompileOptions{Level: O1}), path))
		m, p, s := run()
		require.NoError(t, os.Truncate(path, 4096))

		_, err := before.Run(context.Background(), encoderInputs(1, 7))
		require.NoError(t, err, "it still has the file that it opened")
		for _, size := range []int{16, 7} {
			_, err = s.Run(context.Background(), encoderInputs(2, size))
			require.ErrorContains(t, err, "the file was truncated while in use")
		}
		require.ErrorContains(t, m.VerifyFile(), "the file was truncated while in use")
		_, err = m.Compile(context.Background(), CompileOptions{Weights: tensor.I8}) // which packs again
		require.ErrorContains(t, err, "the file was truncated while in use")
		require.Error(t, p.Save(filepath.Join(t.TempDir(), "copy.rlxc")))
	}
}

// TestChangedFilesAreNotSaved holds that weights which were overwritten in place do not get into a file: Save and Quantize fail, and an
// earlier file keeps its bytes.
func TestChangedFilesAreNotSaved(t *testing.T) {
	folder, err := models.FS("bert-tiny")
	require.NoError(t, err)
	data, err := fs.ReadFile(folder, "model.onnx")
	require.NoError(t, err)
	path, saved := filepath.Join(t.TempDir(), "model.onnx"), filepath.Join(t.TempDir(), "model.rlxc")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	m, err := Open(path)
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), CompileOptions{})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Save(saved))
	good, err := os.ReadFile(saved)
	require.NoError(t, err)
	_, _, err = m.Quantize(t.Context(), QuantizeOptions{Form: quantize.Dynamic})
	require.NoError(t, err)
	time.Sleep(10 * time.Millisecond) // file systems report times by their clock's ticks
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.ErrorIs(t, p.Save(saved), ErrFileChanged)
	same, err := os.ReadFile(saved)
	require.NoError(t, err)
	require.Equal(t, good, same)
	_, _, err = m.Quantize(t.Context(), QuantizeOptions{Form: quantize.Dynamic})
	require.ErrorIs(t, err, ErrFileChanged)
}

func TestSavedLevelIsKept(t *testing.T) {
	m, err := Open(saved(t, CompileOptions{}))
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Compile(context.Background(), CompileOptions{Level: O0})
	require.ErrorContains(t, err, "was compiled at -O 2")
}
