package policies_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	_ "github.com/sigma-scheduler/sigma/lab/policies"
	_ "github.com/sigma-scheduler/sigma/lab/population"
	_ "github.com/sigma-scheduler/sigma/lab/rollout"
)

// shippedDigest is that of the model shipped in the product.
const shippedDigest = "sha256:4ff372ef0f75e69de8ea2a6787c447ce11d3cb12fbb877079ebf8b731d4b6022"

// TestTable: the files of the laboratory leave the model shipped as it is.
func TestTable(t *testing.T) {
	require.Equal(t, shippedDigest, policy.Shipped().Digest())
}

// TestFiles: every file is read, also by its name alone.
func TestFiles(t *testing.T) {
	for _, name := range []string{
		"general-k0-clock-plain-1d.yaml", "general-k0-plain-1d.yaml", "orlib-k0.yaml", "orlib-k0-clock.yaml", "weibull-k0.yaml", "weibull-k0-clock.yaml",
		"rollout-k1.yaml", "rollout-k1-total.yaml", "general-k0.yaml", "general-k0-clock.yaml", "general-k0-devices.yaml", "general-k0-fixed.yaml", "general-k0-plain.yaml",
		"general-k1-churn.yaml", "hand-k0-clock.yaml", "hand-k1-clock.yaml", "hand-k1-devices.yaml", "large-k0.yaml", "repair-k0-fixed.yaml", "vectors-k0.yaml", "wide-k0.yaml",
	} {
		text, err := policies.Files.ReadFile(name)
		require.NoError(t, err)
		object, err := policy.Parse(name, text)
		require.NoError(t, err)
		p, err := object.Policy()
		require.NoError(t, err)
		require.LessOrEqual(t, p.Knowledge(), binpack.K1Clock)
	}
}
