package train

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An axis from 1.04 to 1.25 has ticks that differ in the second digit only.
func TestTicksAreExact(t *testing.T) {
	var labels []string
	for _, tick := range (exactTicks{}).Ticks(1.0427, 1.2525) {
		if !tick.IsMinor() {
			labels = append(labels, tick.Label)
		}
	}
	require.Equal(t, []string{"1.05", "1.15", "1.25"}, labels)
}
