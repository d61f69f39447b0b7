package kernel

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForeignLevels: what a machine packs for a level that it lacks is what a machine of that level packs.
func TestForeignLevels(t *testing.T) {
	const k, n = 37, 101
	weights, quantized := make([]float32, k*n), make([]byte, k*n)
	for i := range weights {
		weights[i], quantized[i] = float32(i%251)/8-15, byte(i*7)
	}
	packs := map[string]func(s *Set) any{
		"f32": func(s *Set) any {
			p := s.NewPackB(k, n)
			dst := make([]float32, p.Len())
			for i := range p.Parts() {
				p.Run(i, dst, weights, n, 1)
			}
			return dst
		},
		"bf16": func(s *Set) any {
			p := s.NewPackBF16(k, n)
			dst, scratch := make([]uint16, p.Len()), bytesOfFloats(make([]float32, p.ScratchBytes()/4+1))
			for i := range p.Parts() {
				p.Run(i, dst, weights, n, 1, scratch)
			}
			return dst
		},
		"s8": func(s *Set) any {
			p := s.NewPackS8(k, n)
			dst := bytesOfFloats(make([]float32, p.Bytes()/4))
			for i := range p.Parts() {
				p.Run(i, dst, quantized, 1, k, true)
			}
			return dst
		},
	}
	for low, s := range sets() {
		for _, high := range sets()[low:] {
			foreign := s.as(high.Level)
			foreign.Lacks = errors.New("not here")
			require.Equal(t, high.Level, foreign.Level)
			for name, pack := range packs {
				require.Equal(t, pack(high), pack(foreign), "%s of %s, packed by %s", name, high.Level, s.Level)
			}
		}
	}
}
