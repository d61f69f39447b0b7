package ir

import (
	"encoding"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnumerations: every name is read back as what it was printed from, and nothing else is read.
func TestEnumerations(t *testing.T) {
	roundTrips[Reduction](t, int(NumReductions))
	roundTrips[PadMode](t, len(padModeNames))
	roundTrips[PowerRounding](t, len(powerRoundingNames))
}

func roundTrips[E interface {
	~uint8
	encoding.TextMarshaler
	String() string
}, P interface {
	*E
	encoding.TextUnmarshaler
}](t *testing.T, count int) {
	names := map[string]bool{}
	for e := range count {
		text, err := E(e).MarshalText()
		require.NoError(t, err)
		require.Equal(t, E(e).String(), string(text))
		names[string(text)] = true
		back := E(0xff)
		require.NoError(t, P(&back).UnmarshalText(text), "%s", text)
		require.Equal(t, E(e), back)
	}
	require.Len(t, names, count)
	require.Contains(t, E(count).String(), "invalid(")
	var none E
	for _, text := range []string{"", "nothing of the kind", E(count).String()} {
		require.ErrorContains(t, P(&none).UnmarshalText([]byte(text)), "is not one of")
		require.Zero(t, none)
	}
}
