package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccount: what fits, what is taken and given back, and when garbage is collected.
func TestAccount(t *testing.T) {
	a := &Account{Limit: 800}
	require.NoError(t, a.Take(300))
	require.NoError(t, a.Fits(500))
	require.EqualError(t, a.Take(501), "801 bytes in all are above the memory limit of 800")
	require.Equal(t, Account{800, 300, 0}, *a)
	a.Give(100)
	a.Pass(50)
	require.Equal(t, Account{800, 150, 100}, *a)
	require.NoError(t, a.Take(600))
	require.Equal(t, Account{800, 750, 100}, *a, "garbage of an eighth of the limit stays")
	a.Give(1)
	require.NoError(t, a.Take(1))
	require.Equal(t, Account{800, 750, 0}, *a, "more is collected where the limit has no room for it")
	a.Give(700)
	require.NoError(t, a.Take(50))
	require.Equal(t, Account{800, 100, 700}, *a)
	require.EqualError(t, (&Account{Limit: 10, Used: 20}).Fits(5), "15 bytes in all are above the memory limit of 10")

	var none *Account
	require.NoError(t, none.Fits(1<<60))
	require.NoError(t, none.Take(1<<60))
	none.Give(1)
	none.Pass(1)
}
