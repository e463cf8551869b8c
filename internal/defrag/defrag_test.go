package defrag

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The figures of one item are in the singular.
func TestPrintOfOne(t *testing.T) {
	var out strings.Builder
	require.NoError(t, (&Result{Fixed: 1, Items: 1}).Print(&out))
	require.Contains(t, out.String(), "fixed     1 item must not move\n")
	require.Contains(t, out.String(), "% of 1 item; at least")
}
