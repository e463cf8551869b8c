package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snapshot of a large cluster names each pod that must not move: 25,000 are more than 2 MiB.
func TestManifestOfALargeCluster(t *testing.T) {
	var text strings.Builder
	text.WriteString("name: large\ndimensions: [cpu]\ndevices: []\nfleet: open\nsource:\n  fixed:\n")
	for i := range 25000 {
		fmt.Fprintf(&text, "    shop/web-%05d-abcde: it has no controller that would replace it, and it has local storage\n", i)
	}
	require.Greater(t, text.Len(), 2<<20)
	m, err := readManifest(strings.NewReader(text.String()))
	require.NoError(t, err)
	require.Len(t, m.source["fixed"], 25000)
}
